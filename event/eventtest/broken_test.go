package eventtest

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
)

// A breakage is a bus with one defect, and the cases that notice it, among others.
type breakage struct {
	defect   string
	install  func(w *twin)
	noticers []string
}

// edit changes what a sequence yields.
func edit(w *twin, f func(e event.Event, err error, yield func(event.Event, error) bool) bool) {
	sound := w.subscribe
	w.subscribe = func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
		seq := sound(ctx, tenant, run, after)
		return func(yield func(event.Event, error) bool) {
			for e, err := range seq {
				if !f(e, err, yield) {
					return
				}
			}
		}
	}
}

// asks changes what is asked for.
func asks(w *twin, f func(tenant string, run uuid.UUID, after int64) (string, uuid.UUID, int64)) {
	sound := w.subscribe
	w.subscribe = func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
		tenant, run, after = f(tenant, run, after)
		return sound(ctx, tenant, run, after)
	}
}

// carries changes what gets to the other side.
func carries(w *twin, f func(e event.Event, publish func(event.Event))) {
	w.publish = func(e event.Event) {
		w.own.Publish(e)
		w.link.send(func() { f(e, w.peer.Publish) })
	}
}

// says changes the data of what gets to the other side.
func says(w *twin, f func(data event.Data) event.Data) {
	carries(w, func(e event.Event, publish func(event.Event)) {
		e.Data = f(e.Data)
		publish(e)
	})
}

var breakages = []breakage{
	{"loses an event on the way", func(w *twin) {
		carries(w, func(e event.Event, publish func(event.Event)) {
			if e.Seq != 3 {
				publish(e)
			}
		})
	}, []string{"order", "replay", "replay_then_live", "many_observers", "many_runs", "own_pace", "concurrent", "taken_over", "taken_back"}},
	{"gives an event twice", func(w *twin) {
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			return yield(e, err) && (e.Seq != 2 || yield(e, err))
		})
	}, []string{"order", "replay", "many_runs", "repeated"}},
	{"swaps two events", func(w *twin) {
		var held *event.Event
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			if err == nil && e.Seq == 2 {
				held = &e
				return true
			}
			if !yield(e, err) {
				return false
			}
			if h := held; h != nil {
				held = nil
				return yield(*h, nil)
			}
			return true
		})
	}, []string{"order", "replay"}},
	{"begins one too early", func(w *twin) {
		asks(w, func(tenant string, run uuid.UUID, after int64) (string, uuid.UUID, int64) {
			return tenant, run, max(after, 1) - 1
		})
	}, []string{"replay", "jumps", "breaking"}},
	{"begins always at the start", func(w *twin) {
		asks(w, func(tenant string, run uuid.UUID, _ int64) (string, uuid.UUID, int64) { return tenant, run, 0 })
	}, []string{"replay", "beyond_the_last", "attached_by_the_call", "terminal", "breaking"}},
	{"takes negative numbers for great ones", func(w *twin) {
		asks(w, func(tenant string, run uuid.UUID, after int64) (string, uuid.UUID, int64) {
			if after < 0 {
				after = math.MaxInt64
			}
			return tenant, run, after
		})
	}, []string{"replay"}},
	{"takes a number beyond the last as it is", func(w *twin) {
		sound := w.subscribe
		w.subscribe = func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
			seq := sound(ctx, tenant, run, after)
			return func(yield func(event.Event, error) bool) {
				for e, err := range seq {
					if (err != nil || e.Seq > after) && !yield(e, err) {
						return
					}
				}
			}
		}
	}, []string{"beyond_the_last", "attached_by_the_call"}},
	{"attaches with the loop", func(w *twin) {
		sound := w.subscribe
		w.subscribe = func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
			return func(yield func(event.Event, error) bool) { sound(ctx, tenant, run, after)(yield) }
		}
	}, []string{"attached_by_the_call"}},
	{"goes on after the terminal event", func(w *twin) {
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			if !yield(e, err) {
				return false
			}
			if err == nil && event.Terminal(e.Data) {
				e.Seq++
				return yield(e, nil)
			}
			return true
		})
	}, []string{"terminal", "order", "ended_elsewhere"}},
	{"never ends", func(w *twin) {
		sound := w.subscribe
		w.subscribe = func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
			seq := sound(ctx, tenant, run, after)
			return func(yield func(event.Event, error) bool) {
				for e, err := range seq {
					if !yield(e, err) || err != nil {
						return
					}
				}
				<-ctx.Done()
			}
		}
	}, []string{"terminal", "order", "big_events", "all_kinds", "away", "begun_in_the_middle"}},
	{"takes the error of a run for an event like others", func(w *twin) {
		says(w, func(data event.Data) event.Data {
			if d, ok := data.(event.RunError); ok {
				return event.TextMessageContent{Delta: d.Error}
			}
			return data
		})
	}, []string{"terminal", "all_kinds"}},
	{"waits for a run that nobody knows", func(w *twin) {
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			if errors.Is(err, event.ErrNoLog) {
				select {}
			}
			return yield(e, err)
		})
	}, []string{"unknown"}},
	{"ends silently for a run that nobody knows", func(w *twin) {
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			return !errors.Is(err, event.ErrNoLog) && yield(e, err)
		})
	}, []string{"unknown"}},
	{"does not look at the tenant", func(w *twin) {
		asks(w, func(_ string, run uuid.UUID, after int64) (string, uuid.UUID, int64) { return tenant, run, after })
	}, []string{"tenants"}},
	{"has one log for all", func(w *twin) {
		id := uuid.MustParse("22222222-2222-4222-8222-222222222222")
		sound := w.publish
		w.publish = func(e event.Event) {
			e.Run = id
			sound(e)
		}
		asks(w, func(tenant string, _ uuid.UUID, after int64) (string, uuid.UUID, int64) { return tenant, id, after })
	}, []string{"many_runs"}},
	{"begins a log with the first event only", func(w *twin) {
		w.open = func(string, uuid.UUID) {}
	}, []string{"opened"}},
	{"does not wait for the first event", func(w *twin) { w.follow = w.subscribe }, []string{"followed"}},
	{"does not know when it is followed no more", func(w *twin) {
		sound := w.follow
		w.follow = func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
			return sound(context.WithoutCancel(ctx), tenant, run, after)
		}
	}, []string{"followed"}},
	{"hides that a log begins in the middle", func(w *twin) {
		sound := w.subscribe
		w.subscribe = func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
			return func(yield func(event.Event, error) bool) {
				for e, err := range sound(ctx, tenant, run, after) {
					if gap, ok := errors.AsType[*event.GapError](err); ok {
						sound(ctx, tenant, run, gap.First-1)(yield)
						return
					}
					if !yield(e, err) {
						return
					}
				}
			}
		}
	}, []string{"begun_in_the_middle", "pushed_out", "too_slow"}},
	{"says a gap but not where the log begins", func(w *twin) {
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			if gap, ok := errors.AsType[*event.GapError](err); ok {
				err = &event.GapError{First: gap.First + 1}
			}
			return yield(e, err)
		})
	}, []string{"begun_in_the_middle", "pushed_out"}},
	{"keeps everything", func(w *twin) {
		roomy := event.NewMemory(nil) // never closed: it keeps nothing but memory
		carries(w, func(e event.Event, publish func(event.Event)) {
			publish(e)
			roomy.Publish(e)
		})
		w.subscribe = roomy.Subscribe
	}, []string{"pushed_out"}},
	{"keeps nothing that is too large", func(w *twin) {
		carries(w, func(e event.Event, publish func(event.Event)) {
			if event.Size(e.Data) < 32<<10 {
				publish(e)
			}
		})
	}, []string{"larger_than_the_log", "big_events"}},
	{"cuts large texts", func(w *twin) {
		says(w, func(data event.Data) event.Data {
			if d, ok := data.(event.TextMessageContent); ok && len(d.Delta) > 8000 {
				d.Delta = d.Delta[:8000]
				return d
			}
			return data
		})
	}, []string{"big_events"}},
	{"takes one kind for another", func(w *twin) {
		says(w, func(data event.Data) event.Data {
			if d, ok := data.(event.ReasoningMessageContent); ok {
				return event.TextMessageContent(d)
			}
			return data
		})
	}, []string{"all_kinds"}},
	{"forgets the session on the way", func(w *twin) {
		carries(w, func(e event.Event, publish func(event.Event)) {
			e.Session = uuid.Nil
			publish(e)
		})
	}, []string{"all_kinds", "big_events"}},
	{"keeps time to the second", func(w *twin) {
		carries(w, func(e event.Event, publish func(event.Event)) {
			e.Time = e.Time.Truncate(time.Second)
			publish(e)
		})
	}, []string{"all_kinds"}},
	{"waits for slow observers", func(w *twin) {
		var mu sync.RWMutex
		sound := w.publish
		w.publish = func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			sound(e)
		}
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			mu.RLock()
			defer mu.RUnlock()
			return yield(e, err)
		})
	}, []string{"own_pace", "too_slow"}},
	{"has room for a hundred observers", func(w *twin) {
		var mu sync.Mutex
		n := 0
		sound := w.subscribe
		w.subscribe = func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
			mu.Lock()
			defer mu.Unlock()
			if n++; n > 100 {
				return func(yield func(event.Event, error) bool) { <-ctx.Done() }
			}
			return sound(ctx, tenant, run, after)
		}
	}, []string{"many_observers"}},
	{"goes on with the next loop where one was left", func(w *twin) {
		sound := w.subscribe
		w.subscribe = func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
			return func(yield func(event.Event, error) bool) {
				for e, err := range sound(ctx, tenant, run, after) {
					after = max(after, e.Seq)
					if !yield(e, err) {
						return
					}
				}
			}
		}
	}, []string{"breaking"}},
	{"does not look at the context", func(w *twin) {
		sound := w.subscribe
		w.subscribe = func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
			return sound(context.WithoutCancel(ctx), tenant, run, after)
		}
	}, []string{"context"}},
	{"ends silently with the context", func(w *twin) {
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			return !errors.Is(err, context.Canceled) && yield(e, err)
		})
	}, []string{"context"}},
	{"waits for what is away", func(w *twin) {
		sound := w.publish
		w.publish = func(e event.Event) {
			w.link.mu.Lock()
			paused := w.link.paused
			w.link.mu.Unlock()
			if paused && e.Seq%100 == 0 {
				<-time.After(150 * time.Millisecond)
			}
			sound(e)
		}
	}, []string{"away"}},
	{"does not tell the other side of a new owner", func(w *twin) {
		carries(w, func(e event.Event, publish func(event.Event)) {
			if w.first || e.Seq < ownerNumbers {
				publish(e)
			}
		})
	}, []string{"taken_over", "taken_back", "former_owner", "ended_elsewhere"}},
	{"ends before a new owner", func(w *twin) {
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			return e.Seq < ownerNumbers && yield(e, err)
		})
	}, []string{"taken_over", "gap_at_a_takeover"}},
	{"says a gap behind the first event of a new owner", func(w *twin) {
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			if e.Seq == ownerNumbers+6 {
				e, err = event.Event{}, &event.GapError{First: e.Seq + 1}
			}
			return yield(e, err) && err == nil
		})
	}, []string{"taken_over", "gap_at_a_takeover"}},
	{"loses the first event of a new owner", func(w *twin) {
		carries(w, func(e event.Event, publish func(event.Event)) {
			if e.Seq%ownerNumbers != 6 || e.Seq < ownerNumbers {
				publish(e)
			}
		})
	}, []string{"taken_over", "taken_back"}},
	{"ends the observers of an owner that is told", func(w *twin) {
		var dropped atomic.Bool
		w.drop = func(tenant string, run uuid.UUID) {
			dropped.Store(true)
			w.own.Drop(tenant, run)
		}
		asks(w, func(tenant string, run uuid.UUID, after int64) (string, uuid.UUID, int64) {
			if dropped.Load() {
				tenant = ""
			}
			return tenant, run, after
		})
	}, []string{"taken_over", "taken_back"}},
	{"takes what a former owner says", func(w *twin) {
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			if err == nil && e.Seq == ownerNumbers+7 {
				former := e
				former.Seq = 6
				if !yield(former, nil) {
					return false
				}
			}
			return yield(e, err)
		})
	}, []string{"former_owner"}},
	{"leaves observers alone when it closes", func(w *twin) {
		w.close = func() error { return nil }
	}, []string{"close", "signals_end"}},
	{"takes events after it was closed", func(w *twin) {
		carries(w, func(e event.Event, publish func(event.Event)) { publish(e) })
	}, []string{"close"}},
	{"ends silently when it closes", func(w *twin) {
		edit(w, func(e event.Event, err error, yield func(event.Event, error) bool) bool {
			return !errors.Is(err, event.ErrClosed) && yield(e, err)
		})
	}, []string{"close"}},
	{"keeps signals to itself", func(w *twin) { w.signal = w.own.Signal }, []string{"signals", "signals_end", "signals_never_block"}},
	{"does not hear its own signals", func(w *twin) {
		w.signal = func(s event.Signal) { w.link.send(func() { w.peer.Signal(s) }) }
	}, []string{"signals"}},
	{"listens with the loop", func(w *twin) {
		w.signals = func(ctx context.Context) iter.Seq[event.Signal] {
			return func(yield func(event.Signal) bool) { w.own.Signals(ctx)(yield) }
		}
	}, []string{"signals"}},
	{"changes signals on the way", func(w *twin) {
		w.signal = func(s event.Signal) {
			w.own.Signal(s)
			s.Tenant = ""
			w.link.send(func() { w.peer.Signal(s) })
		}
	}, []string{"signals"}},
	{"listens for ever", func(w *twin) {
		w.signals = func(ctx context.Context) iter.Seq[event.Signal] { return w.own.Signals(context.WithoutCancel(ctx)) }
	}, []string{"signals_end"}},
	{"waits for those who listen", func(w *twin) {
		var mu sync.Mutex
		var all []chan event.Signal
		w.signals = func(ctx context.Context) iter.Seq[event.Signal] {
			c := make(chan event.Signal, 100)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c)
			return func(yield func(event.Signal) bool) {
				for {
					select {
					case s := <-c:
						if !yield(s) {
							return
						}
					case <-ctx.Done():
						return
					}
				}
			}
		}
		w.signal = func(s event.Signal) {
			w.link.send(func() { w.peer.Signal(s) })
			mu.Lock()
			defer mu.Unlock()
			for _, c := range all {
				c <- s
			}
		}
	}, []string{"signals_never_block"}},
}

func TestEveryCaseNoticesADefect(t *testing.T) {
	t.Parallel()
	noticed := map[string]bool{}
	all := scenarios()
	for _, broken := range breakages {
		for _, name := range broken.noticers {
			i := slices.IndexFunc(all, func(c scenario) bool { return c.name == name })
			require.GreaterOrEqual(t, i, 0, "there is no case %s", name)
			noticed[name] = true
			t.Run(strings.ReplaceAll(broken.defect, " ", "_")+"/"+name, func(t *testing.T) {
				t.Parallel()
				failed, _ := record(t, all[i], Harness{
					Patience: 300 * time.Millisecond,
					Open:     func(t testing.TB, opts Options) Pair { return openTwins(t, opts, broken.install) },
				})
				assert.True(t, failed, "%s does not notice a bus that %s", name, broken.defect)
			})
		}
	}
	for _, c := range all {
		assert.True(t, noticed[c.name], "no defect that %s notices", c.name)
	}
}
