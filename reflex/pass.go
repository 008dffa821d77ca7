package reflex

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store"
)

// pass is what this process knows of a pass that it works on: its stream.
type pass struct {
	e    *Engine
	kick uuid.UUID

	mu      sync.Mutex // guards what follows, and the order of the stream
	seq     int64
	asked   Spot
	source  Spot // where a failure is told; zero while that is not known
	kind    string
	awake   bool
	run     *RunStarted // the run that has begun and not ended
	runAt   Spot
	outcome *Outcome
	held    []string // surfaces that it landed on
	spoken  []Spot   // surfaces on which it said something
}

// takeoverNumbers leaves room between the numbers of one process and of the next.
const takeoverNumbers = 1 << 32

// enter is the first thing that every node does: it notes that the pass is there, and says in this
// process that it is awake.
func (e *Engine) enter(ctx context.Context, s *State) (*pass, error) {
	info, ok := graph.InfoFrom(ctx)
	if !ok {
		return nil, errors.New("reflex: a node outside of a pass")
	}
	s.Path = append(s.Path[:len(s.Path):len(s.Path)], info.Node)
	e.mu.Lock()
	p := e.passes[info.Run]
	if p == nil {
		p = &pass{e: e, kick: info.Run, asked: s.Asked, kind: s.Kind}
		e.passes[info.Run] = p
	}
	e.mu.Unlock()
	recovered := len(s.Path) > 1
	p.mu.Lock()
	awake := p.awake
	p.awake = true
	p.source = e.spot(s.Source, s.Thread)
	p.mu.Unlock()
	if awake {
		return p, nil
	}
	var run *store.Run
	err := again(ctx, func(ctx context.Context) (err error) {
		run, err = e.config.Store.Run(ctx, info.Tenant, info.Run)
		return err
	})
	if err != nil {
		p.mu.Lock()
		p.awake = false
		p.mu.Unlock()
		return nil, err
	}
	p.mu.Lock()
	p.seq = (max(run.Epoch, 1) - 1) * takeoverNumbers
	p.mu.Unlock()
	p.publish(s.Asked, ReflexAwake{Thread: cmp.Or(s.Asked.Thread, s.Asked.Surface), Signal: s.Kind, Recovered: recovered || run.Epoch > 1})
	return p, nil
}

// publish says something that happened at a place.
func (p *pass) publish(at Spot, data Data) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(at, data)
}

// say is publish for who holds mu.
func (p *pass) say(at Spot, data Data) {
	switch d := data.(type) {
	case RunStarted:
		p.run, p.runAt = &d, at
	case RunEnded:
		p.run = nil
	}
	if !slices.ContainsFunc(p.spoken, func(s Spot) bool { return s.Channel == at.Channel && s.Surface == at.Surface }) {
		p.spoken = append(p.spoken, at)
	}
	p.seq++
	private := at.Address.Private() && at.Surface != p.asked.Surface
	p.e.bus.Publish(Event{
		Seq: p.seq, Time: p.e.config.Now(), Kick: p.kick, At: at, AskedOn: p.asked, Private: private, Data: data,
	})
}

// endRun ends the run that has begun, if one has.
func (p *pass) endRun(how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		p.say(p.runAt, RunEnded{Run: p.run.Run, How: how})
	}
}

// observe is how the engine learns that a run of the graph has ended, whoever started it.
func (e *Engine) observe(ctx context.Context, op graph.Operation) (context.Context, func(graph.Outcome)) {
	end := func(graph.Outcome) {}
	if e.config.Observer != nil {
		ctx, end = e.config.Observer.Observe(ctx, op)
	}
	if op.Kind != graph.RunOperation {
		return ctx, end
	}
	return ctx, func(o graph.Outcome) {
		e.sleep(op.Run, o.Err)
		end(o)
	}
}

// sleep ends the stream of a pass. A failure is told where the turn came from.
func (e *Engine) sleep(kick uuid.UUID, err error) {
	e.mu.Lock()
	p := e.passes[kick]
	delete(e.passes, kick)
	e.mu.Unlock()
	if p == nil {
		return // it never woke
	}
	p.endRun("failed")
	p.tell(err)
	p.drawn()
	p.fallAsleep(err)
	for _, surface := range p.held {
		e.free(surface, kick)
	}
}

// tell says why the pass failed, where the turn came from.
func (p *pass) tell(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.source.Surface != "" {
		p.say(p.source, RunFailed{Message: publicText(err), Trace: p.kick})
	}
}

// drawn waits for the channels to draw what the pass said, for a while.
func (p *pass) drawn() {
	if p.e.config.DrawWait == 0 {
		return
	}
	p.mu.Lock()
	spoken := p.spoken
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), p.e.config.DrawWait)
	defer cancel()
	for _, at := range spoken {
		for _, d := range p.e.drawers {
			if d.channel == at.Channel {
				d.drawn(ctx, at.Surface)
			}
		}
	}
}

// fallAsleep says how the pass ended: the last that is heard of it.
func (p *pass) fallAsleep(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how := OutcomeError
	if err == nil && p.outcome != nil {
		how = p.outcome.Kind
	}
	p.say(p.asked, ReflexAsleep{Outcome: how})
}

// spot is a place as listeners name it. Of the native channel there is none.
func (e *Engine) spot(place Place, thread string) Spot {
	if place.IsZero() || place.Address.Channel == NativeChannel {
		return Spot{}
	}
	return Spot{Channel: place.Address.Channel, Surface: place.Address.ID(), Thread: thread, Address: place.Address}
}

// spotOf is where what happens in a thread is heard.
func spotOf(t Thread) Spot {
	return Spot{Channel: t.Address.Channel, Surface: t.Surface(), Thread: t.ID, Address: t.Address}
}
