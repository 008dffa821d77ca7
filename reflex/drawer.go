package reflex

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
)

// drawer draws what happens at a channel: each surface in a goroutine of its own while there is
// something to draw, so that none waits for another one, in the order in which it happened.
type drawer struct {
	e        *Engine
	channel  string
	renderer Renderer
	ctx      context.Context // ends what is being drawn
	stop     context.CancelFunc

	mu       sync.Mutex // guards what follows
	surfaces map[string]*drawing
	closed   bool
}

// drawing is what is to be drawn on one surface.
type drawing struct {
	*queue
	done chan struct{} // closed when all is drawn
}

func newDrawers(e *Engine) []*drawer {
	var all []*drawer
	for _, c := range e.config.Channels {
		if r, ok := c.(Renderer); ok {
			d := &drawer{e: e, channel: c.ID(), renderer: r, surfaces: make(map[string]*drawing)}
			d.ctx, d.stop = context.WithCancel(context.Background())
			all = append(all, d)
		}
	}
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	e.bus.draw = append(e.bus.draw, all...)
	return all
}

// offer takes an event to be drawn. The order of the calls is that of the bus.
func (d *drawer) offer(e Event) {
	if _, ok := e.Data.(RenderFailed); ok {
		return // a channel that cannot draw is not told so
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	on := d.surfaces[e.At.Surface]
	if on == nil {
		on = &drawing{queue: newQueue(d.e.bus.room), done: make(chan struct{})}
		d.surfaces[e.At.Surface] = on
		go d.draw(e.At, on)
	}
	on.offer(e)
}

// draw draws what is in the queue of a surface until it is empty. What did not fit into it is drawn from
// the ledger.
func (d *drawer) draw(at Spot, on *drawing) {
	defer d.end(at.Surface, on)
	drawn := int64(0) // rows up to there were drawn from the ledger
	for {
		e, ok := d.next(at.Surface, on)
		if !ok {
			return
		}
		lag, lagging := e.Data.(Lag)
		if row, ok := rowOf(e.Data); ok && row.Seq <= drawn {
			continue
		}
		if !lagging {
			d.one(e)
			continue
		}
		e.At, e.AskedOn, e.Time = at, at, d.e.config.Now()
		d.one(e)
		for _, first := range lag.Rows {
			for r, err := range d.e.rowsFrom(d.ctx, first) {
				missed, ok := Event{}, false
				if err == nil {
					missed, ok, err = d.e.eventOf(d.ctx, r)
				}
				if err != nil {
					d.failed(e, err)
					break
				}
				if drawn = max(drawn, r.ID.Seq); ok && r.Handle == "" {
					d.one(missed)
				}
			}
		}
		if err := d.cards(at); err != nil {
			d.failed(e, err)
		}
	}
}

// next takes an event to draw, or gives the surface up if there is none.
func (d *drawer) next(surface string, on *drawing) (Event, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok, _ := on.take()
	if ok && d.ctx.Err() == nil {
		return e, true
	}
	delete(d.surfaces, surface) // what comes now is another goroutine's
	return Event{}, false
}

func (d *drawer) end(surface string, on *drawing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.surfaces[surface] == on {
		delete(d.surfaces, surface) // the channel ended the goroutine
	}
	close(on.done)
}

// cards draws what is asked on a surface and has no card yet.
func (d *drawer) cards(at Spot) error {
	open, err := d.e.books.Batches.Open(d.ctx, "")
	if err != nil {
		return err
	}
	for _, b := range open {
		if b.Status != BatchPending || !slices.ContainsFunc(b.Actions, func(a Action) bool { return a.Handle == "" }) {
			continue
		}
		t, err := d.e.books.Threads.Thread(d.ctx, b.Thread)
		if err != nil {
			return err
		}
		if t.Surface() == at.Surface {
			d.one(Event{Time: b.CreatedAt, Kick: b.Kick, At: spotOf(t), AskedOn: spotOf(t), Data: BatchAsked{Batch: b.ID, Actions: b.Actions}})
		}
	}
	return nil
}

// one draws an event, and notes under which id the platform has its row.
func (d *drawer) one(e Event) {
	ctx, cancel := context.WithTimeout(d.ctx, d.e.config.DrawTimeout)
	defer cancel()
	handle, err := render(ctx, d.renderer, e)
	if err == nil && handle != "" {
		if row, ok := rowOf(e.Data); ok {
			err = d.e.books.Ledger.MarkPresented(ctx, row, handle)
		}
	}
	if err != nil {
		d.failed(e, err)
	}
}

func (d *drawer) failed(e Event, err error) {
	d.e.config.Logger.ErrorContext(d.ctx, "channel could not draw", "channel", d.channel, "event", e.Data.Kind(), "error", err)
	d.e.bus.Publish(Event{
		Time: d.e.config.Now(), Kick: e.Kick, At: e.At, AskedOn: e.AskedOn, Private: e.Private,
		Data: RenderFailed{Channel: d.channel, Seq: e.Seq},
	})
}

// render calls the channel and turns its panic into an error.
func render(ctx context.Context, r Renderer, e Event) (handle string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return r.Draw(ctx, e)
}

// drawn waits until all that was said on a surface is drawn, or ctx ends.
func (d *drawer) drawn(ctx context.Context, surface string) {
	d.mu.Lock()
	on := d.surfaces[surface]
	d.mu.Unlock()
	if on == nil {
		return
	}
	select {
	case <-on.done:
	case <-ctx.Done():
	}
}

// close takes nothing more to draw.
func (d *drawer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// wait waits until all is drawn. When ctx ends it stops what is being drawn.
func (d *drawer) wait(ctx context.Context) {
	defer context.AfterFunc(ctx, d.stop)()
	for {
		d.mu.Lock()
		var on *drawing
		for _, on = range d.surfaces {
			break
		}
		d.mu.Unlock()
		if on == nil {
			d.stop()
			break
		}
		<-on.done
	}
	d.e.bus.mu.Lock()
	defer d.e.bus.mu.Unlock()
	d.e.bus.draw = slices.DeleteFunc(d.e.bus.draw, func(o *drawer) bool { return o == d })
}

// Missed yields what the ledger has of a surface from a row on, as events to show: for listeners to
// whom a [Lag] said that they missed some. What people said is not among it. Of what was asked
// meanwhile the books know, see [Batches].
func (e *Engine) Missed(ctx context.Context, from RowID) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for r, err := range e.rowsFrom(ctx, from) {
			ev, ok := Event{}, false
			if err == nil {
				ev, ok, err = e.eventOf(ctx, r)
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			if ok && !yield(ev, nil) {
				return
			}
		}
	}
}

// rowsFrom yields the rows of a surface from one on.
func (e *Engine) rowsFrom(ctx context.Context, from RowID) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		q := RowQuery{Surface: from.Surface, After: from.Seq - 1}
		for {
			page, err := e.books.Ledger.Rows(ctx, q)
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, r := range page {
				if q.After = r.ID.Seq; !yield(r, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

// eventOf is the event that shows a row, if any does.
func (e *Engine) eventOf(ctx context.Context, r Row) (Event, bool, error) {
	var data Data
	switch r.Kind {
	case OutboundRow:
		data = ReplyGiven{Output: r.Segments, Row: r.ID}
	case SystemRow:
		data = Opened{Line: r.Segments, Row: r.ID}
	default:
		return Event{}, false, nil
	}
	t, err := e.books.Threads.Thread(ctx, r.Thread)
	at := spotOf(t)
	return Event{Time: r.At, At: at, AskedOn: at, Data: data}, err == nil, err
}
