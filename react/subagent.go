package react

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

// AsTool returns an agent as a tool of another one, under its name and description. A call gives
// it a task in words; its answer is the result, as JSON if it has an [Output].
//
// Each call has a session of the agent's own, in the tenant of the caller, and its runs are
// detached: if the process dies, whoever takes over the call goes on with the run that it had
// begun. What the agent asks, the calling run asks; the answers find their way back. If the
// calling run is cancelled, or the call takes longer than its Timeout, so is the agent's. Both
// agents need a store for that, and each its own [Agent.Serve] and [Agent.Shutdown].
func AsTool(a *Agent, opts ...*ToolOptions) Tool {
	return NewTool(a.Name(), a.Description(), func(ctx context.Context, in errand) (json.RawMessage, error) {
		return newDelegation(ctx, a).do(in.Task)
	}, opts...)
}

type errand struct {
	Task string `json:"task" jsonschema:"what to do, with everything one needs to know for it"`
}

// delegation is one call of an agent as a tool. Its session and its runs have ids that follow
// from the call, so that the call finds them again when it is made again.
type delegation struct {
	ctx     context.Context
	agent   *Agent
	info    graph.Info
	key     string
	session uuid.UUID
}

func newDelegation(ctx context.Context, a *Agent) *delegation {
	d := &delegation{ctx: ctx, agent: a, key: graph.IdempotencyKey(ctx)}
	d.info, _ = graph.InfoFrom(ctx)
	if d.key == "" {
		d.key = uuid.NewString() // outside of a run
	}
	d.session = d.id("session")
	return d
}

// id returns the id of a part of the delegation.
func (d *delegation) id(part string) uuid.UUID {
	return hashedID([]byte("delegation\x00" + d.agent.Name() + "\x00" + d.key + "\x00" + part))
}

// do has the task done, from where it was left.
func (d *delegation) do(task string) (json.RawMessage, error) {
	run, round, err := d.last()
	if err != nil {
		return nil, err
	}
	if run == nil {
		m := message.NewUser(task)
		m.Metadata, _ = wire.Marshal(map[string]uuid.UUID{"parent_session_id": d.info.Session, "parent_run_id": d.info.Run})
		if run, err = d.start(round, Input{Messages: []message.Message{m}}); err != nil {
			return nil, err
		}
	}
	for {
		s, err := d.wait(run)
		asked, ok := errors.AsType[*graph.InterruptedError](err)
		if err == nil {
			return d.answer(s)
		} else if !ok {
			return nil, err
		}
		answers, err := d.ask(asked.Questions)
		if err != nil {
			return nil, err
		}
		round++
		if run, err = d.start(round, Input{Resume: answers}); err != nil {
			return nil, err
		}
	}
}

// last returns the last run that was begun, nil if none was, and its number.
func (d *delegation) last() (run *graph.Run[State], round int, err error) {
	for n := 0; ; n++ {
		next, err := d.agent.Attach(d.ctx, d.info.Tenant, d.id(fmt.Sprint("run ", n)))
		if errors.Is(err, store.ErrNotFound) {
			return run, max(n-1, 0), nil
		}
		if err != nil {
			return nil, 0, err
		}
		run = next
	}
}

func (d *delegation) start(round int, in Input) (*graph.Run[State], error) {
	in.Tenant, in.Session, in.Run = d.info.Tenant, d.session, d.id(fmt.Sprint("run ", round))
	run, err := d.agent.Start(d.ctx, in)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.agent.Name(), err)
	}
	return run, nil
}

// wait waits for the end of a run, and takes it along if the call is given up.
func (d *delegation) wait(run *graph.Run[State]) (State, error) {
	s, err := run.Wait(d.ctx)
	cause := context.Cause(d.ctx)
	if cause == nil {
		if failed, ok := errors.AsType[*graph.RunError](err); ok {
			return s, fmt.Errorf("agent %s failed (%s): %s", d.agent.Name(), failed.Code, failed.Text)
		}
		return s, err
	}
	if !errors.Is(cause, graph.ErrShutdown) { // after which the call is made again
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), 5*time.Second)
		defer cancel()
		if err := run.Cancel(ctx); err != nil {
			return s, errors.Join(cause, err)
		}
	}
	return s, cause
}

// ask hands on questions, and returns the answers that are there. Without any it returns the
// error that asks.
func (d *delegation) ask(questions []graph.Question) (json.RawMessage, error) {
	answers := map[string]json.RawMessage{}
	var open []error
	for _, q := range questions {
		answer, err := graph.Interrupt[json.RawMessage](d.ctx, q.ID, q.Payload)
		if err != nil {
			open = append(open, err)
		} else {
			answers[q.ID] = answer
		}
	}
	if len(answers) == 0 {
		return nil, errors.Join(open...)
	}
	return wire.Marshal(answers)
}

func (d *delegation) answer(s State) (json.RawMessage, error) {
	text := s.Reply()
	if d.agent.output != nil && json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	return wire.Marshal(text)
}
