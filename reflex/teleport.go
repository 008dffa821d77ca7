package reflex

import (
	"context"
	"errors"
	"fmt"

	"github.com/everstep-go/everstep/graph"
)

var errNotOpened = errors.New("the channel opened no new thread")

// Run carries the agent to another place. Everything that can be known is checked before something
// is opened, everything is copied before the move is told, and each effect is done once: what was
// done when the process died is not done again.
func (n *relocate) Run(ctx context.Context, s State) (State, graph.Next[relocate], error) {
	var none graph.Next[relocate]
	p, err := n.e.enter(ctx, &s)
	if err != nil {
		return s, none, err
	}
	s, further, err := n.move(ctx, p, s)
	if err != nil {
		return s, none, coded(err)
	}
	if further {
		return s, n.React.Next(), nil
	}
	return s, n.Done.Next(), nil
}

// journey is a move under way.
type journey struct {
	p        *pass
	key      string
	request  RelocateRequest
	agent    Agent
	from, to Thread
}

func (n *relocate) move(ctx context.Context, p *pass, s State) (State, bool, error) {
	if s.Request == nil || s.Decision == nil || s.Thread == "" {
		return s, false, fmt.Errorf("%w: nothing says where to", ErrInvariant)
	}
	j := &journey{p: p, key: fmt.Sprintf("%s/%d/teleport", p.kick, s.Step), request: *s.Request}
	s.RunName = "teleport"
	var err error
	if j.from, err = n.e.books.Threads.Thread(ctx, s.Thread); err != nil {
		return s, false, err
	}
	origin := Place{Address: j.from.Address, Mode: modeOf(j.from)}
	if j.agent, err = n.e.agent(s.Decision.Agent); err != nil {
		return s, false, err
	}
	if s.NativeOf != nil {
		// The owner's profile says on which channel a session lands that had none.
		origin.Address = Address{Channel: s.Profile.Channel}
	} else if err := canFork(j.agent, j.request); err != nil {
		return s, false, err
	}
	if err := n.e.preflight(ctx, j.request, origin, j.agent.ID(), s.Profile); err != nil {
		return s, false, err
	}
	if s, err = n.carry(ctx, s, j, origin); err != nil {
		return s, false, errors.Join(err, n.strand(ctx, j))
	}
	return n.arrive(ctx, s, j)
}

// strand says in a thread that was opened for nothing that nothing came of it.
func (n *relocate) strand(ctx context.Context, j *journey) error {
	if ctx.Err() != nil || j.to.ID == "" || j.to.ID == j.from.ID {
		return nil
	}
	line := Text("Nothing moved here: the work goes on where it was.")
	row, err := n.e.books.Ledger.Append(ctx, Row{
		ID: RowID{Surface: j.to.Surface()}, Kind: SystemRow, Thread: j.to.ID, Agent: j.agent.ID(), Segments: line,
		Delivery: j.key + "/stranded",
	})
	if err == nil {
		j.p.publish(spotOf(j.to), Opened{Line: line, Row: row.ID})
	}
	return err
}

// carry opens the place and brings everything there.
func (n *relocate) carry(ctx context.Context, s State, j *journey, origin Place) (State, error) {
	j.to = j.from
	if !j.request.InPlace {
		at, err := n.open(ctx, s, j, origin)
		if err != nil {
			return s, err
		}
		if j.to, err = n.e.books.Threads.Ensure(ctx, threadAt(at)); err != nil {
			return s, err
		}
		if err := n.e.hold(ctx, j.p, j.to.Surface()); err != nil {
			return s, err
		}
	}
	source, err := n.e.books.Conversations.Ensure(ctx, j.from.ID, j.agent.ID(), "")
	if err != nil {
		return s, err
	}
	landed, err := n.e.books.Conversations.Ensure(ctx, j.to.ID, j.agent.ID(), "")
	if err != nil {
		return s, err
	}
	if err := n.project(ctx, j); err != nil {
		return s, err
	}
	if !j.request.InPlace {
		_, err = graph.Task(ctx, "copy", func(ctx context.Context) (bool, error) {
			if s.NativeOf != nil {
				return true, j.agent.(Importer).ImportNative(ctx, *s.NativeOf, landed)
			}
			return true, j.agent.(Forker).Fork(ctx, source, landed)
		})
		if err != nil {
			return s, fmt.Errorf("reflex: history not carried: %w", err)
		}
	}
	dir, err := n.relocate(ctx, j, landed)
	if err != nil {
		return s, err
	}
	_, err = n.e.books.Conversations.Change(ctx, landed.ID, func(c *Conversation) {
		c.Effort, c.Mode, c.Model, c.Dir = source.Effort, source.Mode, s.Decision.Model, dir
		if c.ID != source.ID {
			c.ForkedFrom = source.ID
		}
	})
	if err != nil {
		return s, err
	}
	if j.to.ID != j.from.ID {
		if j.to, err = n.e.books.Threads.Change(ctx, j.to.ID, func(t *Thread) error {
			t.Agent = j.agent.ID()
			t.use(landed.ID, n.e.config.Now())
			return nil
		}); err != nil {
			return s, err
		}
	}
	s.Conversation = landed.ID
	s.Decision = &Decision{Agent: j.agent.ID(), Model: s.Decision.Model, Effort: source.Effort}
	if s.Pending == nil {
		s.Pending = &Origin{Agent: j.agent.ID(), Conversation: source.ID, Run: source.LastRun, Message: source.LastMessage}
	}
	return s, nil
}

// relocate makes the agent's session one of the workspace where it lands, and returns that.
func (n *relocate) relocate(ctx context.Context, j *journey, landed Conversation) (string, error) {
	dir, err := n.e.config.Workspaces.Open(ctx, j.to)
	a, ok := j.agent.(Relocator)
	if err != nil || !ok || dir == "" || dir == landed.Dir {
		return dir, err
	}
	if err := a.Relocate(ctx, landed, dir); err != nil {
		return dir, fmt.Errorf("reflex: session not relocated: %w", err)
	}
	return dir, nil
}

// open asks the channel for a new thread. What is no new one is refused: no chat that exists may
// take the place of one.
func (n *relocate) open(ctx context.Context, s State, j *journey, origin Place) (Address, error) {
	r := j.request
	if r.Channel == "" {
		r.Channel = origin.Address.Channel
	}
	c, err := n.e.channel(r.Channel)
	if err != nil {
		return Address{}, err
	}
	request := OpenRequest{Key: j.key, At: Address{Channel: r.Channel, Chat: r.Chat}, Hint: r.Hint}
	if r.Channel == origin.Address.Channel && r.Chat == "" {
		request.At = origin.Address.Room()
	}
	if s.Profile != nil {
		if request.Profile, err = n.e.profileOn(ctx, *s.Profile, r.Channel); err != nil {
			return Address{}, err
		}
	}
	at, err := graph.Task(ctx, "open", func(ctx context.Context) (Address, error) {
		at, err := c.OpenThread(ctx, request)
		if err == nil && (at.Thread == "" || at.Channel != r.Channel || at.ID() == origin.Address.ID()) {
			err = errNotOpened
		}
		return at, err
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrNothingMoved, err)
	}
	return at, err
}

// project binds the landed thread to the project that was named, or to the one that the source has,
// with its files as they are there.
func (n *relocate) project(ctx context.Context, j *journey) error {
	name := j.request.Project
	carried := name == ""
	if carried {
		if name = j.from.Project; name == "" || j.request.InPlace {
			return nil
		}
	}
	if _, err := n.e.books.Threads.Change(ctx, j.to.ID, func(t *Thread) error {
		if t.Project != "" && t.Project != name {
			return fmt.Errorf("%w: %s is bound to the project %s", ErrThreadChanged, t.ID, t.Project)
		}
		t.Project = name
		return nil
	}); err != nil {
		return err
	}
	_, err := graph.Task(ctx, "files", func(ctx context.Context) (bool, error) {
		if carried {
			return true, n.e.config.Workspaces.Carry(ctx, j.from, j.to)
		}
		return true, n.e.config.Workspaces.Materialise(ctx, j.to, name, j.request.Ref)
	})
	return err
}

// arrive tells of the move and decides whether there is more to do.
func (n *relocate) arrive(ctx context.Context, s State, j *journey) (State, bool, error) {
	if err := n.announce(ctx, s, j); err != nil {
		return s, false, err
	}
	r := j.request
	s.Thread, s.Target = j.to.ID, Place{Address: j.to.Address, Mode: modeOf(j.to)}
	s.Request, s.NativeOf, s.Results, s.Prompt = nil, nil, nil, nil
	where := fmt.Sprintf("You are now in %s.", j.to.Address.ID())
	if j.to.Project != "" {
		where += fmt.Sprintf(" The workspace is that of the project %s.", j.to.Project)
	}
	switch {
	case !blank(r.Prompt):
		var author Profile
		if s.Profile != nil {
			author = *s.Profile
		}
		row, err := n.e.books.Ledger.Append(ctx, Row{
			ID: RowID{Surface: j.to.Surface()}, Kind: InboundRow, Thread: j.to.ID, Author: author, Segments: r.Prompt, Delivery: j.key + "/prompt",
		})
		if err != nil {
			return s, false, err
		}
		s.Trigger, s.Prompt = row.ID, r.Prompt
		s, err = n.e.loadPrompt(ctx, s, j.to)
		return s, true, err
	case r.Resume && r.Call != "":
		s.Results = DeferredResults{r.Call: {Kind: MoveCall, Text: where}}
		return s, true, nil
	case r.Resume:
		s.Prompt = Text(where)
		return s, true, nil
	}
	_, model, err := n.e.resolve(j.to.Address.Channel, j.agent.ID(), s.Decision.Model)
	if err != nil {
		return s, false, err
	}
	if !j.to.InGroup() {
		err = n.e.books.Handoffs.HandOver(ctx, Handoff{
			Surface: j.to.Surface(), Agent: j.agent.ID(), Model: model, To: s.Conversation, From: *s.Pending, Kick: j.p.kick,
		})
	}
	err = errors.Join(err, n.e.config.Workspaces.Save(context.WithoutCancel(ctx), j.to))
	s.Pending = nil
	return j.p.ends(s, Outcome{Kind: OutcomeResult}), false, err
}

// announce leaves a line in the chat that the work left, and one that begins the new thread. Of a
// thread in the same chat the first is the second.
func (n *relocate) announce(ctx context.Context, s State, j *journey) error {
	line := j.request.Hint
	if line == "" {
		line = "The work goes on in " + j.to.Address.ID()
	}
	var author Profile
	if s.Profile != nil {
		author = *s.Profile
	}
	moved := Moved{Action: "teleport", Agent: j.agent.ID(), Destination: j.to.Address}
	sameChat := j.from.Address.Room().ID() == j.to.Address.Room().ID()
	if j.to.ID != j.from.ID && j.from.Kind != Native {
		row, err := n.e.books.Ledger.Append(ctx, Row{
			ID: RowID{Surface: j.from.Surface()}, Kind: OutboundRow, Thread: j.from.ID, Agent: j.agent.ID(), Segments: Text(line),
			Delivery: j.key + "/line",
		})
		if err != nil {
			return err
		}
		moved.Line, moved.Row = Text(line), row.ID
	}
	if j.to.ID != j.from.ID && !sameChat {
		row, err := n.e.books.Ledger.Append(ctx, Row{
			ID: RowID{Surface: j.to.Surface()}, Kind: SystemRow, Thread: j.to.ID, Author: author, Segments: Text(line),
			Delivery: j.key + "/opener",
		})
		if err != nil {
			return err
		}
		j.p.publish(spotOf(j.to), Opened{Line: Text(line), Row: row.ID})
	}
	if j.from.Kind != Native {
		j.p.publish(spotOf(j.from), moved)
	}
	return nil
}
