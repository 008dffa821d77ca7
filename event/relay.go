package event

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

// A SharedLog is what a [Relay] needs to carry events between processes: a database or a broker.
// All methods are safe for concurrent use, except that a Relay calls each of them from one
// goroutine at a time.
type SharedLog interface {
	// Append adds chunks to the logs of their runs, and tells them and the signals to all who
	// listen. One that is there already, because the answer to an earlier call got lost, is
	// ignored.
	Append(ctx context.Context, chunks []Chunk, signals []Signal) error

	// Read returns the chunks that are kept and begin after the positions, those of a run in
	// order.
	Read(ctx context.Context, after []Position) ([]Chunk, error)

	// Listen calls hear with what other processes append, until ctx ends or it cannot listen any
	// more. The first call says that from now on nothing is missed: Notice.All.
	Listen(ctx context.Context, hear func(Notice)) error
}

// Chunk is a piece of the log of a run.
type Chunk struct {
	Tenant       string
	Session, Run uuid.UUID
	// First and Last are the numbers of its first and its last event. None is missing between.
	First, Last int64
	// Ended: the last one is the terminal event. The log can go after a while.
	Ended bool
	// Body is the events, as a JSON array.
	Body []byte
}

// Position is how far the log of a run was read.
type Position struct {
	Tenant string
	Run    uuid.UUID
	After  int64 // the number of the last event that was
}

// Notice says what was appended.
type Notice struct {
	Runs    []uuid.UUID
	Signals []Signal
	All     bool // anything may have been: look at everything
}

// RelayOptions are the options of [NewRelay]. Zero fields mean the default.
type RelayOptions struct {
	// Memory are the options of the logs that are kept in this process.
	Memory MemoryOptions
	// Flush is how long events are collected before they are appended. Default: 15 ms.
	Flush time.Duration
	// Poll is how often the log is read when no notice comes. Default: 1 s.
	Poll time.Duration
	// QueueBytes bounds what waits to be appended, as [Size] counts. Beyond it events are lost to
	// other processes, whose observers get a [*GapError]. Default: 16 MiB.
	QueueBytes int
	// Logger is told when the log cannot be reached. Default: [slog.Default].
	Logger *slog.Logger
}

// Relay is a [Bus] and a [Signaler] between processes, by a [SharedLog]. Who observes a run that
// this process executes is served from memory; all events also go to the log, off the path of
// whoever publishes them, where the relays of other processes read those that somebody there
// observes.
//
// What an observer here gets of a run that another process executes has no holes: where numbers
// are missing, because a process died or the log was away, or begin anew, because another process
// took the run over, it gets a [*GapError] and begins again with a snapshot.
type Relay struct {
	log    SharedLog
	opts   RelayOptions
	local  *Memory
	cancel context.CancelFunc
	ended  sync.WaitGroup
	queue  queue

	listeners listeners
	look      chan struct{} // capacity 1: there are mirrors to fill

	mu      sync.Mutex // guards what follows
	mirrors map[runKey]*mirror
	closed  bool
}

var (
	_ Bus      = (*Relay)(nil)
	_ Signaler = (*Relay)(nil)
	_ Follower = (*Relay)(nil)
)

// NewRelay returns a relay on a log. Close it before the log.
func NewRelay(log SharedLog, opts *RelayOptions) *Relay {
	var o RelayOptions
	if opts != nil {
		o = *opts
	}
	if o.Flush <= 0 {
		o.Flush = 15 * time.Millisecond
	}
	if o.Poll <= 0 {
		o.Poll = time.Second
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 16 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Relay{
		log: log, opts: o, local: NewMemory(&o.Memory), cancel: cancel,
		queue: queue{limit: o.QueueBytes, more: make(chan struct{}, 1)},
		look:  make(chan struct{}, 1), mirrors: map[runKey]*mirror{},
	}
	for _, loop := range []func(context.Context){r.send, r.read, r.listen} {
		r.ended.Go(func() { loop(ctx) })
	}
	return r
}

// Open implements what [Memory.Open] does, for a run that this process is about to execute.
func (r *Relay) Open(tenant string, run uuid.UUID) { r.local.Open(tenant, run) }

// Drop implements what [Memory.Drop] does. Follow has the rest.
func (r *Relay) Drop(tenant string, run uuid.UUID) { r.local.Drop(tenant, run) }

// Publish implements [Bus].
func (r *Relay) Publish(e Event) {
	if r.local.publish(e) {
		r.queue.add(e)
	}
}

// Signal implements [Signaler].
func (r *Relay) Signal(s Signal) {
	r.listeners.tell(s)
	r.queue.addSignal(s)
}

// Signals implements [Signaler].
func (r *Relay) Signals(ctx context.Context) iter.Seq[Signal] { return r.listeners.listen(ctx) }

// Subscribe implements [Bus]. For a run that this process does not execute it reads the log first.
func (r *Relay) Subscribe(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[Event, error] {
	return r.observe(ctx, runKey{tenant, run}, after, false)
}

// Follow implements [Follower].
func (r *Relay) Follow(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[Event, error] {
	return r.observe(ctx, runKey{tenant, run}, after, true)
}

func (r *Relay) observe(ctx context.Context, key runKey, after int64, wait bool) iter.Seq2[Event, error] {
	l, closed := r.local.find(key)
	switch {
	case closed:
		return failing(ErrClosed)
	case l != nil:
		return r.local.Subscribe(ctx, key.tenant, key.run, after)
	}
	first, err := r.attach(ctx, key, after, wait)
	if err != nil {
		return failing(err)
	}
	return func(yield func(Event, error) bool) {
		w := first.take()
		if w == nil { // each loop starts again
			if w, err = r.attach(ctx, key, after, wait); err != nil {
				yield(Event{}, err)
				return
			}
			w.take()
		}
		defer w.leave()
		w.log.observe(ctx, w.after, yield)
	}
}

func failing(err error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { yield(Event{}, err) }
}

// Close appends what waits, as far as that is possible at once, and ends all observers with
// [ErrClosed].
func (r *Relay) Close() error {
	r.cancel()
	r.ended.Wait()
	r.mu.Lock()
	r.closed = true
	for _, m := range r.mirrors {
		m.log.end(ErrClosed)
		m.load(ErrClosed)
	}
	r.mu.Unlock()
	r.listeners.close()
	return r.local.Close()
}

const (
	// callTimeout bounds one call to the log.
	callTimeout = 5 * time.Second
	// The pauses after calls that failed.
	minPause, maxPause = 50 * time.Millisecond, 2 * time.Second
)

// send appends what is published.
func (r *Relay) send(ctx context.Context) {
	var pause time.Duration
	for {
		select {
		case <-r.queue.more:
			wait(ctx, r.opts.Flush+pause)
		case <-ctx.Done():
		}
		chunks, signals := r.queue.take()
		if len(chunks)+len(signals) > 0 {
			if err := r.append(ctx, chunks, signals); err != nil {
				r.opts.Logger.Warn("events not sent to other processes", "chunks", len(chunks), "error", err)
				r.queue.giveBack(chunks)
				pause = longer(pause)
			} else {
				r.queue.sent(chunks)
				r.sent(chunks)
				pause = 0
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// sent has those look who followed a run elsewhere until this process took it over.
func (r *Relay) sent(chunks []*pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range chunks {
		if m := r.mirrors[runKey{p.chunk.Tenant, p.chunk.Run}]; m != nil {
			r.wake(m)
		}
	}
}

func (r *Relay) append(ctx context.Context, chunks []*pending, signals []Signal) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	out := make([]Chunk, 0, len(chunks))
	for _, p := range chunks {
		if p.chunk.Body == nil {
			p.encode(r.opts.Logger)
		}
		out = append(out, p.chunk)
	}
	return r.log.Append(ctx, out, signals)
}

// listen hears what others append.
func (r *Relay) listen(ctx context.Context) {
	var pause time.Duration
	for ctx.Err() == nil {
		err := r.log.Listen(ctx, func(n Notice) {
			pause = 0
			r.hear(n)
		})
		if ctx.Err() != nil {
			return
		}
		r.opts.Logger.Warn("not listening to other processes", "error", err)
		pause = longer(pause)
		wait(ctx, pause)
	}
}

func (r *Relay) hear(n Notice) {
	for _, s := range n.Signals {
		r.listeners.tell(s)
	}
	if len(n.Runs) == 0 && !n.All {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.All {
		r.wakeAll()
		return
	}
	for _, run := range n.Runs {
		for key, m := range r.mirrors {
			if key.run == run {
				r.wake(m)
			}
		}
	}
}

// longer is the pause after another failure.
func longer(pause time.Duration) time.Duration {
	return min(max(2*pause, minPause), maxPause)
}

// wait waits, with a tenth more or less so that many processes do not come at once.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d - d/10 + rand.N(d/5+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

var (
	errLoad  = errors.New("event: the shared log does not answer")
	errChunk = errors.New("event: the numbers of the chunk are not those of its events")
)
