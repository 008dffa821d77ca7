package reflex

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/graph"
)

// Run makes one run of an agent. The run itself is a task that is never repeated: if the process
// dies in it, the pass ends with ErrInterrupted. What follows the run can be done again.
func (n *runAgent) Run(ctx context.Context, s State) (State, graph.Next[runAgent], error) {
	var none graph.Next[runAgent]
	p, err := n.e.enter(ctx, &s)
	if err != nil {
		return s, none, err
	}
	s, way, err := n.run(ctx, p, s)
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

// way is where a pass goes after a run.
type way int

const (
	toDone way = iota
	toDeferred
	toSummon
	toScheme
	toTeleport
)

func (n *runAgent) run(ctx context.Context, p *pass, s State) (State, way, error) {
	batch := s.Batch
	s, w, err := n.turn(ctx, p, s)
	if batch == "" {
		return s, w, err
	}
	// The batch is done with once the run is, also if that asks again; a run that failed may be
	// tried again with the same answers.
	settle := n.e.books.Batches.Complete
	if err != nil {
		settle = n.e.books.Batches.Release
	}
	if failed := settle(context.WithoutCancel(ctx), batch, p.kick); failed != nil && err == nil {
		err = failed
	}
	return s, w, err
}

func (n *runAgent) turn(ctx context.Context, p *pass, s State) (_ State, _ way, err error) {
	if s.Decision == nil || s.Target.IsZero() || s.Source.IsZero() {
		return s, 0, fmt.Errorf("%w: a run needs a decision, a target and a source", ErrInvariant)
	}
	a, model, err := n.e.resolve(s.Target.Address.Channel, s.Decision.Agent, s.Decision.Model)
	if err != nil {
		return s, 0, err
	}
	t, err := n.e.beginTurn(ctx, p, &s, a, model)
	if err != nil {
		return s, 0, err
	}
	defer func() { err = errors.Join(err, n.e.endTurn(ctx, t)) }()
	if s, err = n.e.recordHandoff(ctx, p, s, t); err != nil {
		return s, 0, err
	}
	if len(s.Results) == 0 {
		if err := n.e.supersede(ctx, t); err != nil {
			return s, 0, err
		}
	}
	request := t.request(s)
	if err := n.e.answersAsPrompt(ctx, t, s, request); err != nil {
		return s, 0, err
	}
	r, err := graph.Task(ctx, "run", func(ctx context.Context) (report, error) {
		return n.e.drive(ctx, t, s.Rows, a.Run(ctx, request))
	}, &graph.TaskOptions{AtMostOnce: true})
	if errors.Is(err, graph.ErrOutcomeUnknown) {
		err = fmt.Errorf("%w: %s in %s: %w", ErrInterrupted, a.ID(), t.thread.ID, err)
		err = errors.Join(err, n.e.orphaned(ctx, t))
	}
	if err != nil {
		return s, 0, err
	}
	return n.e.settle(ctx, t, s, r)
}

// turnOf is one turn of an agent: nothing of it survives into the next node.
type turnOf struct {
	e            *Engine
	p            *pass
	agent        Agent
	model        string
	thread       Thread
	conversation Conversation
	at           Spot
	session      *TurnSession
	suspender    *suspender
	run          uuid.UUID
	step         int
	name         string
	dir          string
	capabilities []string
	dismissed    bool
}

// beginTurn prepares a turn and takes the conversation's only place for one. Nothing was said or
// handed over when it is refused.
func (e *Engine) beginTurn(ctx context.Context, p *pass, s *State, a Agent, model string) (*turnOf, error) {
	thread, err := e.books.Threads.Thread(ctx, s.Thread)
	if err != nil {
		return nil, err
	}
	conversation, err := e.books.Conversations.Ensure(ctx, thread.ID, a.ID(), "")
	if err != nil {
		return nil, err
	}
	if ours, err := e.books.Turns.Claim(ctx, conversation.ID, p.kick); err != nil {
		return nil, err
	} else if !ours {
		return nil, fmt.Errorf("%w: conversation %s", ErrTurnActive, conversation.ID)
	}
	s.Step++
	s.Decision = &Decision{Agent: a.ID(), Model: model, Effort: s.Decision.Effort, Brief: s.Decision.Brief, Hint: s.Decision.Hint}
	if s.Decision.Effort == "" {
		s.Decision.Effort = conversation.Effort
	}
	s.Selection, s.Conversation = Selection{Agent: a.ID(), Model: model}, conversation.ID
	t := &turnOf{
		e: e, p: p, agent: a, model: model, thread: thread, conversation: conversation, at: spotOf(thread),
		run: idOf("run", p.kick.String(), fmt.Sprint(s.Step)), step: s.Step, name: s.RunName,
	}
	t.session = &TurnSession{
		e: e, p: p, step: s.Step, thread: thread, target: s.Target, profile: s.Profile, agent: a.ID(), conversation: conversation,
	}
	t.suspender = &suspender{t: t, state: *s}
	if err := e.prepare(ctx, t, s.Profile); err != nil {
		return nil, errors.Join(err, e.endTurn(ctx, t))
	}
	return t, nil
}

// prepare gets what the turn works with: its directory, and what the person has whose turn it is.
func (e *Engine) prepare(ctx context.Context, t *turnOf, person *Profile) (err error) {
	t.thread, err = e.books.Threads.Change(ctx, t.thread.ID, func(th *Thread) error {
		th.use(t.conversation.ID, e.config.Now())
		return nil
	})
	if err != nil {
		return err
	}
	if t.dir, err = e.config.Workspaces.Open(ctx, t.thread); err != nil {
		return err
	}
	if t.dir != "" {
		t.conversation, err = e.books.Conversations.Change(ctx, t.conversation.ID, func(c *Conversation) { c.Dir = t.dir })
		if err != nil {
			return err
		}
	}
	if e.config.Capabilities != nil && person != nil && person.User != "" {
		t.capabilities, err = e.config.Capabilities(ctx, *person, t.agent.ID())
	}
	return err
}

// endTurn saves the turn's workspace, whatever happened, and gives up its place.
func (e *Engine) endTurn(ctx context.Context, t *turnOf) error {
	ctx = context.WithoutCancel(ctx)
	err := e.config.Workspaces.Save(ctx, t.thread)
	if err == nil && t.dismissed {
		err = e.config.Workspaces.Dismiss(ctx, t.thread)
	}
	return errors.Join(err, e.books.Turns.Release(ctx, t.conversation.ID, t.p.kick))
}

// recordHandoff writes down a hand-over that is pending, and then says it where the work left.
func (e *Engine) recordHandoff(ctx context.Context, p *pass, s State, t *turnOf) (State, error) {
	if s.Pending != nil && !t.thread.InGroup() {
		err := e.books.Handoffs.HandOver(ctx, Handoff{
			Surface: t.thread.Surface(), Agent: t.agent.ID(), Model: t.model, To: t.conversation.ID, From: *s.Pending, Kick: p.kick,
		})
		if err != nil {
			return s, err
		}
	}
	if s.Announce != nil {
		p.publish(s.Announce.At, s.Announce.Moved)
	}
	s.Pending, s.Announce = nil, nil
	return s, nil
}

// supersede ends the batches that wait for answers in the conversation: a new prompt takes their
// place.
func (e *Engine) supersede(ctx context.Context, t *turnOf) error {
	return e.expireAll(ctx, t, func(b Batch) bool { return b.Kick != t.p.kick })
}

// expireAll ends those of the conversation's open batches that are to end, and says so.
func (e *Engine) expireAll(ctx context.Context, t *turnOf, which func(Batch) bool) error {
	open, err := e.books.Batches.Open(ctx, t.conversation.ID)
	if err != nil {
		return err
	}
	for _, b := range open {
		if !which(b) {
			continue
		}
		b, expired, err := e.books.Batches.Expire(ctx, b.ID)
		if err != nil {
			return err
		}
		if expired {
			t.p.publish(t.at, BatchAnswered{Batch: b.ID, Status: b.Status, Actions: b.Actions})
		}
	}
	return nil
}

// orphaned ends the batches that a run waited for in a process that died.
func (e *Engine) orphaned(ctx context.Context, t *turnOf) error {
	return e.expireAll(ctx, t, func(b Batch) bool { return b.Mode == Live && b.Kick == t.p.kick && !e.waits(b.ID) })
}

// request is what the agent runs on.
func (t *turnOf) request(s State) *RunRequest {
	r := &RunRequest{
		Kick: t.p.kick, Run: t.run, Name: t.name, Conversation: t.conversation, Thread: t.thread, Target: s.Target,
		Model: t.model, Session: t.session, Suspender: t.suspender, Profile: s.Profile, Capabilities: t.capabilities, Dir: t.dir,
		Results: s.Results,
		Mode: func(ctx context.Context) PermissionMode {
			c, err := t.e.books.Conversations.Conversation(ctx, t.conversation.ID)
			if err != nil || c.Mode == "" {
				return AskPeople
			}
			return c.Mode
		},
	}
	if s.Decision != nil {
		r.Effort = s.Decision.Effort
	}
	if a, ok := t.agent.(interface{ Uncontrolled() bool }); ok && a.Uncontrolled() {
		r.Session = nil
	}
	switch {
	case len(s.Results) > 0:
	case s.Decision != nil && s.Decision.Brief != "":
		r.Prompt = Text(s.Decision.Brief)
	default:
		r.Prompt = s.Prompt
	}
	return r
}

// answersAsPrompt makes the results of what was asked the prompt, for an agent that takes no results.
func (e *Engine) answersAsPrompt(ctx context.Context, t *turnOf, s State, r *RunRequest) error {
	a, ok := t.agent.(interface{ AnswersAsPrompt() bool })
	if !ok || len(r.Results) == 0 || !a.AnswersAsPrompt() {
		return nil
	}
	var calls []DeferredCall
	if s.Batch != "" {
		b, err := e.books.Batches.Batch(ctx, s.Batch)
		if err != nil {
			return err
		}
		calls = b.Calls
	}
	for id, result := range r.Results {
		if result.Kind == MoveCall {
			calls = append(calls, DeferredCall{ID: id, Kind: MoveCall})
		}
	}
	r.Prompt, r.Results = Text(r.Results.Prompt(calls)), nil
	return nil
}

// report is what is kept of a run.
type report struct {
	Result   RunResult        `json:"result"`
	Decision recorded         `json:"decision"`
	Batch    string           `json:"batch,omitempty"`
	Calls    []DeferredCall   `json:"calls,omitempty"`
	Move     *RelocateRequest `json:"move,omitempty"`
}

// drive follows a run to its end and says what it says. The rows that the prompt was made of are
// bound as soon as the agent has them.
func (e *Engine) drive(ctx context.Context, t *turnOf, rows []int64, progress iter.Seq2[Progress, error]) (report, error) {
	t.started()
	var result *RunResult
	bound := false
	for step, err := range progress {
		if err != nil {
			return report{}, err
		}
		if !bound {
			bound = true
			if err := t.bind(ctx, rows); err != nil {
				return report{}, err
			}
		}
		if step.Event != nil {
			t.p.publish(t.at, AgentEvent{step.Event})
		}
		if step.Result != nil {
			result = step.Result
		}
	}
	if ctx.Err() != nil {
		return report{}, context.Cause(ctx)
	}
	if result == nil {
		return report{}, fmt.Errorf("%w: %s", ErrNoResult, t.agent.ID())
	}
	if len(result.Deferred) > 0 && !t.suspender.took() {
		if err := t.suspender.Suspend(ctx, result.Deferred); err != nil {
			return report{}, err
		}
	}
	result.Output = slices.Clone(result.Output) // the agent may go on with its own
	r := report{Result: *result, Decision: t.session.recorded()}
	r.Batch, r.Calls, r.Move = t.suspender.taken()
	return r, nil
}

// started says that the run began, unless this process said so before.
func (t *turnOf) started() {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	if t.p.run == nil {
		t.p.say(t.at, RunStarted{Run: t.run, Address: t.at.Address, Agent: t.agent.ID(), Model: t.model, Name: t.name})
	}
}

// bind notes that rows have become part of the conversation.
func (t *turnOf) bind(ctx context.Context, rows []int64) error {
	if len(rows) == 0 {
		return nil
	}
	return t.e.books.Ledger.Bind(ctx, t.thread.Surface(), rows, Binding{Conversation: t.conversation.ID, Run: t.run})
}

// settle records what a run came to, says it, and decides where the pass goes. What is done is
// recorded even if the pass is being cancelled.
func (e *Engine) settle(ctx context.Context, t *turnOf, s State, r report) (State, way, error) {
	ctx = context.WithoutCancel(ctx)
	t.started() // by another process, if the run is a kept result
	_, err := e.books.Conversations.Change(ctx, t.conversation.ID, func(c *Conversation) {
		c.Model, c.LastRun = t.model, r.Result.Run
		if r.Result.Message != uuid.Nil {
			c.LastMessage = r.Result.Message
		}
	})
	if err != nil {
		return s, 0, err
	}
	var row Row
	if !blank(r.Result.Output) {
		row, err = e.books.Ledger.Append(ctx, Row{
			ID: RowID{Surface: t.thread.Surface()}, Kind: OutboundRow, Thread: t.thread.ID, Agent: t.agent.ID(), Segments: r.Result.Output,
			Delivery: fmt.Sprintf("%s/%d/reply", t.p.kick, t.step),
			Bound:    &Binding{Conversation: t.conversation.ID, Run: r.Result.Run, Message: r.Result.Message},
		})
		if err != nil {
			return s, 0, err
		}
		t.p.publish(t.at, ReplyGiven{Output: r.Result.Output, Usage: r.Result.Usage, Row: row.ID})
	}
	how := "completed"
	if r.Batch != "" || r.Move != nil {
		how = "suspended"
	}
	t.p.endRun(how)
	t.dismissed = r.Decision.Dismiss
	s.Prompt, s.Rows, s.Trigger, s.Results, s.Batch = nil, nil, RowID{}, nil, ""
	return e.decide(s, t, r, row.ID)
}

// decide reads what the run decided. A hand-over comes before a move, and both before questions
// and the result.
func (e *Engine) decide(s State, t *turnOf, r report, row RowID) (State, way, error) {
	move := r.Decision.Teleport
	if move == nil {
		move = r.Move
	}
	if s.Decision == nil {
		s.Decision = &Decision{Agent: t.agent.ID(), Model: t.model}
	}
	if r.Decision.Summon != nil || r.Decision.Scheme != nil || move != nil {
		if s.Moves++; s.Moves > e.config.MaxMoves {
			return s, 0, fmt.Errorf("%w: more than %d", ErrTooManyMoves, e.config.MaxMoves)
		}
		s.Pending = &Origin{Agent: t.agent.ID(), Conversation: t.conversation.ID, Run: r.Result.Run, Message: r.Result.Message}
	}
	switch {
	case r.Decision.Summon != nil:
		d := r.Decision.Summon
		s.Decision = &Decision{Agent: d.Agent, Model: d.Model, Effort: d.Effort, Brief: d.Brief}
		return s, toSummon, nil
	case r.Decision.Scheme != nil:
		s.Private = r.Decision.Scheme
		return s, toScheme, nil
	case move != nil:
		s.Request = move
		return s, toTeleport, nil
	case r.Batch != "":
		return t.ends(s, Outcome{Kind: OutcomeSuspended, Batch: r.Batch, Requests: r.Calls, Output: r.Result.Output, Row: row}), toDeferred, nil
	}
	return t.ends(s, Outcome{Kind: OutcomeResult, Output: r.Result.Output, Row: row}), toDone, nil
}

func (t *turnOf) ends(s State, o Outcome) State { return t.p.ends(s, o) }

// ends makes the state the end of the pass.
func (p *pass) ends(s State, o Outcome) State {
	s = s.ends(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcome = s.Outcome
	return s
}
