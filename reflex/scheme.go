package reflex

import (
	"context"
	"fmt"

	"github.com/everstep-go/everstep/graph"
)

// Run takes the work into the asker's direct messages. If those are not opened, nothing moves and
// the pass ends: what the agent said is said already.
func (n *privateHandoff) Run(ctx context.Context, s State) (State, graph.Next[privateHandoff], error) {
	var none graph.Next[privateHandoff]
	p, err := n.e.enter(ctx, &s)
	if err != nil {
		return s, none, err
	}
	s, opened, err := n.open(ctx, p, s)
	if err != nil {
		return s, none, coded(err)
	}
	if !opened {
		s.Decision, s.Pending, s.Private, s.Target = nil, nil, nil, s.Source
		return p.ends(s, Outcome{Kind: OutcomeResult}), n.Done.Next(), nil
	}
	return s, n.React.Next(), nil
}

// opened is what became of the request for a place.
type opened struct {
	Address Address `json:"address"`
	OK      bool    `json:"ok"`
	Reason  string  `json:"reason,omitempty"`
}

func (n *privateHandoff) open(ctx context.Context, p *pass, s State) (State, bool, error) {
	d := s.Private
	if d == nil {
		return s, false, fmt.Errorf("%w: nothing is to be taken into direct messages", ErrInvariant)
	}
	if s.Profile == nil {
		return s, false, nil
	}
	channel := d.Channel
	if channel == "" {
		if channel = s.Source.Address.Channel; channel == NativeChannel {
			channel = s.Profile.Channel
		}
	}
	c, err := n.e.canOpenDM(channel)
	if err != nil {
		return s, false, err
	}
	profile, err := n.e.profileOn(ctx, *s.Profile, channel)
	if err != nil {
		return s, false, err
	}
	key := fmt.Sprintf("%s/%d/scheme", p.kick, s.Step)
	dm, err := graph.Task(ctx, "open", func(ctx context.Context) (opened, error) {
		at, err := openDM(ctx, c, OpenRequest{Key: key, Profile: profile, Hint: d.Hint})
		if ctx.Err() != nil {
			return opened{}, context.Cause(ctx)
		}
		if err != nil {
			return opened{Reason: err.Error()}, nil
		}
		return opened{Address: at, OK: true}, nil
	})
	if err != nil {
		return s, false, err
	}
	if !dm.OK {
		n.e.config.Logger.WarnContext(ctx, "direct messages not opened", "channel", channel, "kick", p.kick, "reason", dm.Reason)
		return s, false, nil
	}
	return n.land(ctx, p, s, c, dm.Address, key)
}

// land makes the direct messages the place of the next run. Who gets the work is not the origin's
// choice: it is who owns them, or the channel's default agent.
func (n *privateHandoff) land(ctx context.Context, p *pass, s State, c Channel, at Address, key string) (State, bool, error) {
	d := s.Private
	var current *Thread
	if s.Thread != "" {
		t, err := n.e.books.Threads.Thread(ctx, s.Thread)
		if err != nil {
			return s, false, err
		}
		current = &t
	}
	t, err := enter(ctx, n.e.books.Threads, at, current, key)
	if err != nil {
		return s, false, err
	}
	agent, model, err := n.e.owner(ctx, t)
	if err != nil {
		return s, false, err
	}
	if agent == "" && len(c.Agents()) > 0 {
		agent = c.Agents()[0]
	}
	a, model, err := n.e.resolve(c.ID(), agent, model)
	if err != nil {
		return s, false, err
	}
	if d.Hint != "" {
		row, err := n.e.books.Ledger.Append(ctx, Row{
			ID: RowID{Surface: t.Surface()}, Kind: SystemRow, Thread: t.ID, Author: *s.Profile, Segments: Text(d.Hint),
			Delivery: key,
		})
		if err != nil {
			return s, false, err
		}
		p.publish(spotOf(t), Opened{Line: Text(d.Hint), Row: row.ID})
	}
	if current != nil && current.Kind != Native {
		s.Announce = &announced{At: spotOf(*current), Moved: Moved{Action: "scheme", Agent: a.ID(), Destination: at}}
	}
	if err := n.e.hold(ctx, p, t.Surface()); err != nil {
		return s, false, err
	}
	s.Target, s.Thread, s.Private, s.RunName = Place{Address: at, Mode: Main}, t.ID, nil, "summon"
	s.Decision = &Decision{Agent: a.ID(), Model: model, Brief: d.Brief, Hint: d.Hint}
	return s, true, nil
}

// hold keeps a surface that a pass landed on from being kicked while the pass goes on there, unless
// another pass has it: that one was there before, and conversations have one turn at a time.
func (e *Engine) hold(ctx context.Context, p *pass, surface string) error {
	if _, err := e.books.Surfaces.Claim(ctx, surface, p.kick); err != nil {
		return err
	}
	if e.take(surface, p.kick) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held = append(p.held, surface)
	}
	return nil
}
