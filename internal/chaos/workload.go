//go:build unix

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
)

// workload is what the clients do.
type workload struct {
	h      *harness
	client *http.Client
	n      atomic.Int64 // observers

	ctx     context.Context // of those who wait for an end
	stop    context.CancelFunc
	clients sync.WaitGroup
	enough  atomic.Bool    // no more runs
	others  sync.WaitGroup // observers that nobody waits for
}

func newWorkload(h *harness) *workload {
	return &workload{h: h, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
}

func (w *workload) observer() int { return int(w.n.Add(1)) }

func (w *workload) start(ctx context.Context) {
	w.ctx, w.stop = context.WithCancel(ctx)
	for i := range w.h.opts.Clients {
		c := &chance{rand.New(rand.NewPCG(w.h.opts.Seed, uint64(i+1))), len(w.h.replicas)}
		w.clients.Go(func() {
			for !w.enough.Load() && w.ctx.Err() == nil {
				w.once(c)
			}
		})
	}
}

// tail uses each replica, now that all is healed, for longer than it takes an old trouble to pass.
func (w *workload) tail(ctx context.Context) {
	for i := range w.h.replicas {
		for deadline := time.Now().Add(2 * w.h.opts.Lease); time.Now().Before(deadline) && ctx.Err() == nil; {
			end := w.attach(ctx, nil, "tail", i, uuid.New(), script(uuid.New(), `/call echo {"text":"here"}`))
			if d, ok := end.(event.RunFinished); ok && d.Status == "completed" {
				break
			}
		}
	}
}

// finish lets what is under way come to its end, and begins nothing more.
func (w *workload) finish(ctx context.Context) {
	w.enough.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.clients.Wait()
		w.others.Wait()
	}()
	select {
	case <-done:
	case <-time.After(w.h.opts.Within):
	case <-ctx.Done():
	}
}

// leave ends all that still waits for something.
func (w *workload) leave() {
	w.stop()
	w.clients.Wait()
	w.others.Wait()
	w.client.CloseIdleConnections()
}

// chance makes the choices of one client.
type chance struct {
	*rand.Rand
	replicas int
}

func (c *chance) replica() int { return c.IntN(c.replicas) }

func (c *chance) between(from, to time.Duration) time.Duration {
	return from + time.Duration(c.Int64N(int64(to-from)))
}

// fork makes choices for somebody who goes his own way.
func (c *chance) fork() *chance {
	return &chance{rand.New(rand.NewPCG(c.Uint64(), c.Uint64())), c.replicas}
}

// id returns a new id; a retry must not make other choices.
func (c *chance) id() uuid.UUID {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(c.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// script is the body of a run with one message.
func script(session uuid.UUID, lines ...string) object {
	return object{"session_id": session, "messages": []object{{"role": "user", "content": strings.Join(lines, "\n")}}}
}

// script makes some rounds of calls, several in each.
func (c *chance) script(run uuid.UUID) (lines []string) {
	rounds := 1 + c.IntN(3)
	for round := range rounds {
		if round > 0 {
			lines = append(lines, "/then")
		}
		if c.IntN(3) == 0 {
			lines = append(lines, fmt.Sprintf("/slow %d", 10+c.IntN(40)), "/think I have to think about it for a moment")
		}
		for call := range 1 + c.IntN(4) {
			ms := c.IntN(600)
			switch c.IntN(40) {
			case 0, 1:
				ms = 12000 // more than a server waits for when it is told to end
			case 2, 3, 4:
				ms = 2000 + c.IntN(5000) // through a takeover
			}
			name := fmt.Sprintf("%d.%d", round, call)
			switch c.IntN(6) {
			case 0:
				lines = append(lines, `/call echo {"text":"`+name+`"}`)
			case 1:
				lines = append(lines, fmt.Sprintf(`/call sleep {"ms":%d}`, ms))
			case 2:
				lines = append(lines, fmt.Sprintf(`/call ledger_once {"line":%q,"ms":%d}`, lineOf(run, name, true), ms))
			default:
				lines = append(lines, fmt.Sprintf(`/call ledger {"line":%q,"ms":%d}`, lineOf(run, name, false), ms))
			}
		}
	}
	if c.IntN(2) == 0 {
		lines = append(lines, "/then", "/slow 20", "/say That is all that there was to do, as far as I can see.")
	}
	return lines
}

// once is one thing that a client does.
func (w *workload) once(c *chance) {
	session, run := c.id(), c.id()
	switch c.IntN(10) {
	default: // a detached run, watched by one or two
		if w.begin(w.ctx, c, run, script(session, c.script(run)...)) {
			w.watch(c, run)
		}
	case 0, 1:
		w.attach(w.ctx, c, "attach", c.replica(), run, script(session, c.script(run)...))
	case 2:
		w.ask(c, session, run)
	case 3, 4:
		if w.begin(w.ctx, c, run, script(session, append(c.script(run), "/then", fmt.Sprintf(`/call ledger {"line":%q,"ms":5000}`, lineOf(run, "late", false)))...)) {
			other := c.fork()
			w.others.Go(func() { w.observe(w.ctx, other, run, true) })
			wait(w.ctx, c.between(0, 1500*time.Millisecond))
			w.cancel(w.ctx, c, run)
			w.watch(c, run)
		}
	case 5:
		w.queue(c, session)
	}
}

// watch follows a run to its end, sometimes with a second observer who comes in the middle.
func (w *workload) watch(c *chance, run uuid.UUID) {
	if other := c.fork(); c.IntN(2) == 0 {
		w.others.Go(func() {
			wait(w.ctx, other.between(0, time.Second))
			w.observe(w.ctx, other, run, other.IntN(2) == 0)
		})
	}
	w.observe(w.ctx, c, run, true)
	w.get(w.ctx, c, run)
	w.get(w.ctx, c, run)
}

// ask makes a run that asks, and another one that answers.
func (w *workload) ask(c *chance, session, run uuid.UUID) {
	if !w.begin(w.ctx, c, run, script(session, fmt.Sprintf(`/call ledger {"line":%q,"ms":50}`, lineOf(run, "before", false)), `/call ask {"question":"Which?"}`)) {
		return
	}
	w.watch(c, run)
	answer := c.id()
	if w.begin(w.ctx, c, answer, object{"session_id": session, "resume_payload": "this"}) {
		w.watch(c, answer)
	}
}

// queue makes runs that wait for each other.
func (w *workload) queue(c *chance, session uuid.UUID) {
	var runs []uuid.UUID
	for range 2 + c.IntN(2) {
		run := c.id()
		body := script(session, c.script(run)...)
		body["on_busy"] = "wait"
		if w.begin(w.ctx, c, run, body) {
			runs = append(runs, run)
		}
	}
	for _, run := range runs {
		w.watch(c, run)
	}
}
