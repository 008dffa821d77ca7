package tale

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/everstep-go/everstep/event"
)

// A Log is a log that the relays of one test share, each by a member of its own. The zero value is ready.
type Log struct {
	// Away makes every call fail, and Silent tells nobody of what is appended. Set changes them.
	Away, Silent bool
	// Appends and Reads count the calls. They are to be read while nothing goes on.
	Appends, Reads int

	mu      sync.Mutex // guards all of it
	chunks  []event.Chunk
	hearers map[*member]func(event.Notice)
}

// Member returns the log as one process has it.
func (l *Log) Member() event.SharedLog { return &member{l} }

// Set changes the log.
func (l *Log) Set(change func(*Log)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

type member struct{ *Log }

var errAway = errors.New("the log is away")

func (m *member) Append(_ context.Context, chunks []event.Chunk, signals []event.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Away {
		return errAway
	}
	m.Appends++
	n := event.Notice{Signals: signals}
	for _, c := range chunks {
		m.chunks = append(m.chunks, c)
		n.Runs = append(n.Runs, c.Run)
	}
	for other, hear := range m.hearers {
		if other != m && !m.Silent {
			hear(n)
		}
	}
	return nil
}

func (m *member) Read(_ context.Context, after []event.Position) (out []event.Chunk, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Away {
		return nil, errAway
	}
	m.Reads++
	for _, p := range after {
		var own []event.Chunk
		for _, c := range m.chunks {
			if c.Tenant == p.Tenant && c.Run == p.Run && c.First > p.After {
				own = append(own, c)
			}
		}
		slices.SortFunc(own, func(a, b event.Chunk) int { return int(a.First - b.First) })
		out = append(out, own...)
	}
	return out, nil
}

func (m *member) Listen(ctx context.Context, hear func(event.Notice)) error {
	m.mu.Lock()
	if m.Away {
		m.mu.Unlock()
		return errAway
	}
	if m.hearers == nil {
		m.hearers = make(map[*member]func(event.Notice))
	}
	m.hearers[m] = hear
	hear(event.Notice{All: true})
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.hearers, m)
	return ctx.Err()
}
