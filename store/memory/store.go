package memory

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// Store is a [store.Store] in memory. Make one with [New]. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu          sync.Mutex // guards everything below and all that is reached from it
	closed      bool
	sessions    map[key]*session
	runs        map[key]*run
	checkpoints map[key]*position
	messages    map[key][]*store.Message // in the order in which they were created
	records     map[shelfKey]*shelf
}

var _ store.Store = (*Store)(nil)

// Options are the options of [New].
type Options struct {
	// Now tells the time. If nil, time.Now.
	Now func() time.Time
}

// New returns an empty store. Opts may be nil.
func New(opts *Options) *Store {
	if opts == nil {
		opts = &Options{}
	}
	now := opts.Now
	if now == nil {
		now = time.Now
	}
	return &Store{
		now:         now,
		sessions:    map[key]*session{},
		runs:        map[key]*run{},
		checkpoints: map[key]*position{},
		messages:    map[key][]*store.Message{},
		records:     map[shelfKey]*shelf{},
	}
}

// Close forgets everything. Calls after it return [store.ErrClosed], except Close itself.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.sessions, s.runs, s.checkpoints, s.messages, s.records = nil, nil, nil, nil, nil
	return nil
}

// A key is an id within its tenant: every map has the tenant in its key, so that no look-up can
// cross tenants by an oversight.
type key struct {
	tenant string
	id     uuid.UUID
}

// lock begins a call. Nothing below it waits, so this is the only place to look at ctx: a call
// that got past it is carried out.
func (s *Store) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}
