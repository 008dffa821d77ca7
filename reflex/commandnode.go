package reflex

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store"
)

// Run carries out one command. It holds the conversation's turn from the checks to the end, writes
// the receipt before it asks the agent, and asks it once.
func (n *runCommand) Run(ctx context.Context, s State) (State, graph.Next[runCommand], error) {
	var none graph.Next[runCommand]
	p, err := n.e.enter(ctx, &s)
	if err != nil {
		return s, none, err
	}
	if s.Command == nil {
		return s, none, coded(fmt.Errorf("%w: no command", ErrInvariant))
	}
	s, way, err := n.command(ctx, p, s)
	if err != nil {
		return s, none, coded(err)
	}
	switch way {
	case toSummon:
		return s, n.Summon.Next(), nil
	case toScheme:
		return s, n.Scheme.Next(), nil
	case toTeleport:
		return s, n.Teleport.Next(), nil
	case toDeferred:
		return s, n.Deferred.Next(), nil
	}
	return s, n.Done.Next(), nil
}

func refuse(status CommandStatus, format string, args ...any) *CommandOutcome {
	return &CommandOutcome{Status: status, Text: fmt.Sprintf(format, args...)}
}

// commanded is what is kept of a command.
type commanded struct {
	Outcome CommandOutcome `json:"outcome"`
	Ran     bool           `json:"ran,omitempty"` // it started work, of which there is a report
	Report  report         `json:"report,omitzero"`
}

func (n *runCommand) command(ctx context.Context, p *pass, s State) (_ State, _ way, err error) {
	c := *s.Command
	p.from(&s, Place{Address: c.Address, Mode: Main})
	s.Target, s.RunName, s.Decision, s.Profile = s.Source, "command", nil, nil
	conversation, err := n.e.books.Conversations.Conversation(ctx, c.Conversation)
	if errors.Is(err, store.ErrNotFound) {
		return n.refused(p, s, refuse(CommandUnavailable, "there is no such conversation"))
	} else if err != nil {
		return s, 0, err
	}
	s.Conversation, s.Thread = conversation.ID, conversation.Thread
	if ours, err := n.e.books.Turns.Claim(ctx, conversation.ID, p.kick); err != nil {
		return s, 0, err
	} else if !ours {
		return n.refused(p, s, refuse(CommandBusy, "the conversation has a turn under way"))
	}
	t, refusal, err := n.validate(ctx, p, s, c)
	if err != nil || refusal != nil {
		err = errors.Join(err, n.e.books.Turns.Release(context.WithoutCancel(ctx), conversation.ID, p.kick))
		if err != nil {
			return s, 0, err
		}
		return n.refused(p, s, refusal)
	}
	defer func() { err = errors.Join(err, n.e.endTurn(ctx, t)) }()
	s.Selection = Selection{Agent: t.agent.ID(), Model: t.model}
	s.Step++
	done, err := graph.Task(ctx, "command", func(ctx context.Context) (commanded, error) {
		return n.execute(ctx, t, s, c)
	}, &graph.TaskOptions{AtMostOnce: true})
	if errors.Is(err, graph.ErrOutcomeUnknown) {
		done, err = commanded{Outcome: *refuse(CommandFailed, "%s", outcomeUnknown)}, n.e.orphaned(ctx, t)
	}
	if err != nil {
		return s, 0, err
	}
	return n.settle(ctx, t, s, c, done)
}

// refused ends the pass with a command that was not carried out, now.
func (n *runCommand) refused(p *pass, s State, o *CommandOutcome) (State, way, error) {
	p.publish(n.e.commandSpot(s), CommandFeedback{Command: s.Command.Command.String(), Outcome: *o})
	return p.ends(s, Outcome{Kind: OutcomeCommand, Command: o}), toDone, nil
}

func (e *Engine) commandSpot(s State) Spot { return e.spot(s.Source, s.Thread) }

// validate checks the command against how things are once the list of commands is known. The first
// thing that is wrong is the refusal. A receipt of the delivery comes before what the agent offers:
// what was accepted is answered again.
func (n *runCommand) validate(ctx context.Context, p *pass, s State, c CommandSignal) (*turnOf, *CommandOutcome, error) {
	catalogue, err := n.e.catalogue(ctx, c.Agent, s.Conversation)
	if err != nil {
		return nil, nil, err
	}
	t, refusal, err := n.available(ctx, p, s, c)
	if err != nil || refusal != nil {
		return nil, refusal, err
	}
	surface := t.thread.Surface()
	receipt, err := n.e.books.Receipts.Receipt(ctx, surface, c.Delivery)
	switch {
	case err == nil && receipt.Kick == p.kick:
		// This pass accepted it, before it changed hands.
	case err == nil && !receipt.same(receiptOf(p, t, c)):
		return nil, refuse(CommandFailed, "this delivery id is another request's"), nil
	case err == nil && receipt.Outcome != nil:
		return nil, receipt.Outcome, nil
	case err == nil:
		return nil, refuse(CommandFailed, "%s", outcomeUnknown), nil
	case !errors.Is(err, store.ErrNotFound):
		return nil, nil, err
	default:
		if refusal := catalogue.refuses(c.Command); refusal != nil {
			return nil, refusal, nil
		}
	}
	return t, nil, n.e.prepare(ctx, t, t.session.profile)
}

func (c Catalogue) refuses(command Command) *CommandOutcome {
	if c.Status != CommandDone {
		return refuse(c.Status, "the commands are not known")
	}
	i := slices.IndexFunc(c.Commands, func(s CommandSpec) bool { return s.Name == command.Name })
	switch {
	case i < 0:
		return refuse(CommandUnknown, "there is no command /%s", command.Name)
	case len(command.Attachments) > 0 && !c.Commands[i].Attachments:
		return refuse(CommandUnsupported, "/%s takes no attachments", command.Name)
	}
	return nil
}

// available says whether all that the command names is there and as it was when it was given.
func (n *runCommand) available(ctx context.Context, p *pass, s State, c CommandSignal) (*turnOf, *CommandOutcome, error) {
	gone := func(what string) (*turnOf, *CommandOutcome, error) {
		return nil, refuse(CommandUnavailable, "%s is not available", what), nil
	}
	stale := func(what string) (*turnOf, *CommandOutcome, error) {
		return nil, refuse(CommandStale, "%s has changed", what), nil
	}
	channel, err := n.e.channel(c.Address.Channel)
	if err != nil {
		return gone("the channel")
	}
	a, err := n.e.agent(c.Agent)
	if err != nil || !exposes(channel, c.Agent) {
		return gone("the agent")
	}
	profile, err := n.e.config.Users.Profile(ctx, c.Profile.Channel, c.Profile.ID)
	if err != nil || profile.User != c.Profile.User {
		return gone("the profile")
	}
	conversation, err := n.e.books.Conversations.Conversation(ctx, c.Conversation)
	if err != nil {
		return gone("the conversation")
	}
	thread, err := n.e.books.Threads.Thread(ctx, conversation.Thread)
	if err != nil || thread.Address.ID() != c.Address.ID() {
		return gone("the thread")
	}
	if visible, err := n.e.config.Users.Visible(ctx, profile, thread); err != nil || !visible {
		return gone("the thread")
	}
	owner, _, err := n.e.owner(ctx, thread)
	if err != nil {
		return nil, nil, err
	}
	if conversation.Agent != c.Agent || conversation.Sub != "" || owner != "" && owner != c.Agent {
		return stale("the owner of the conversation")
	}
	model, err := resolveModel(a, c.Model)
	if err != nil {
		return stale("the model")
	}
	if c.changed(conversation) {
		return stale("the conversation")
	}
	t := &turnOf{
		e: n.e, p: p, agent: a, model: model, thread: thread, conversation: conversation, at: spotOf(thread),
		run: idOf("run", p.kick.String(), fmt.Sprint(s.Step+1)), step: s.Step + 1, name: "command",
	}
	t.session = &TurnSession{
		e: n.e, p: p, step: t.step, thread: thread, target: s.Target, profile: &profile, agent: a.ID(), conversation: conversation,
	}
	s.Profile = &profile
	t.suspender = &suspender{t: t, state: s}
	return t, nil, nil
}

// changed reports whether a conversation is not what it was when the command was given.
func (c CommandSignal) changed(now Conversation) bool {
	return c.Session != uuid.Nil && now.Session != c.Session || c.Dir != "" && now.Dir != c.Dir || now.Mode != c.Mode ||
		c.Model != "" && now.Model != "" && now.Model != c.Model
}

func receiptOf(p *pass, t *turnOf, c CommandSignal) Receipt {
	return Receipt{
		Surface: t.thread.Surface(), Delivery: c.Delivery, Sender: c.Profile, Conversation: t.conversation.ID,
		Agent: c.Agent, Command: c.Command, Kick: p.kick,
	}
}

// execute accepts the command and has the agent carry it out. What goes wrong in the agent is told
// in words that give nothing away.
func (n *runCommand) execute(ctx context.Context, t *turnOf, s State, c CommandSignal) (commanded, error) {
	receipt := receiptOf(t.p, t, c)
	if err := n.e.books.Receipts.Accept(ctx, receipt); err != nil {
		return commanded{}, err
	}
	if a, ok := t.agent.(Invalidator); ok {
		defer a.InvalidateCatalogue(t.conversation)
	}
	if err := n.show(ctx, t, c); err != nil {
		return commanded{}, err
	}
	fail := func(text string) CommandOutcome { return CommandOutcome{Status: CommandFailed, Text: text} }
	kept := context.WithoutCancel(ctx)
	reply, err := dispatch(ctx, t.agent.(Commander), &CommandRequest{RunRequest: *t.request(s), Command: c.Command})
	switch {
	case ctx.Err() != nil:
		settled := n.e.books.Receipts.Settle(kept, receipt.Surface, c.Delivery, fail("the command was interrupted"))
		return commanded{}, errors.Join(context.Cause(ctx), settled)
	case err != nil:
		n.e.config.Logger.ErrorContext(ctx, "command failed", "agent", c.Agent, "command", c.Command.Name, "kick", t.p.kick, "error", err)
		return commanded{Outcome: fail("the command failed")}, nil
	case reply.Run == nil:
		return commanded{Outcome: CommandOutcome{Status: CommandDone, Text: reply.Text}}, nil
	}
	r, err := n.e.drive(ctx, t, nil, reply.Run)
	if err != nil {
		text := "the command failed"
		if ctx.Err() != nil {
			text = "the command was interrupted"
		}
		return commanded{}, errors.Join(err, n.e.books.Receipts.Settle(kept, receipt.Surface, c.Delivery, fail(text)))
	}
	text := reply.Text
	if text == "" {
		text = textOf(r.Result.Output)
	}
	return commanded{Outcome: CommandOutcome{Status: CommandDone, Text: text}, Ran: true, Report: r}, nil
}

// show makes the accepted command a row of the surface.
func (n *runCommand) show(ctx context.Context, t *turnOf, c CommandSignal) error {
	_, err := n.e.books.Ledger.Append(ctx, Row{
		ID: RowID{Surface: t.thread.Surface()}, Kind: ReceiptRow, Thread: t.thread.ID, Author: c.Profile,
		Segments: append(Text(c.Command.String()), c.Command.Attachments...), Delivery: "command:" + c.Delivery,
	})
	return err
}

// dispatch calls the agent and turns its panic into an error.
func dispatch(ctx context.Context, c Commander, r *CommandRequest) (reply CommandReply, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &graph.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return c.Command(WithSession(ctx, r.Session), r)
}

// settle notes how the command ended, says it, and goes on with what its work decided.
func (n *runCommand) settle(ctx context.Context, t *turnOf, s State, c CommandSignal, done commanded) (State, way, error) {
	ctx = context.WithoutCancel(ctx)
	err := n.e.books.Receipts.Settle(ctx, t.thread.Surface(), c.Delivery, done.Outcome)
	if err == nil {
		err = n.show(ctx, t, c) // unless that was done: the process may have died before
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return s, 0, err // without a receipt it died before it was accepted
	}
	if !done.Ran {
		t.p.publish(t.at, CommandFeedback{Command: c.Command.String(), Outcome: done.Outcome})
		return t.ends(s, Outcome{Kind: OutcomeCommand, Command: &done.Outcome}), toDone, nil
	}
	s.Profile = t.session.profile
	s, way, err := n.e.settle(ctx, t, s, done.Report)
	s.Command = nil
	if err == nil && way == toDone {
		o := *s.Outcome
		o.Kind, o.Command = OutcomeCommand, &done.Outcome
		s = t.ends(s, o)
	}
	return s, way, err
}
