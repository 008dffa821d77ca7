package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
)

// maxBatch is how many writes share a transaction at most.
const maxBatch = 256

// A write is a call that waits for its outcome, which is known only when the transaction is.
type write struct {
	// do may be called again, after what it wrote was undone.
	do   func(ctx context.Context, c *conn) error
	keep bool // do keeps the cache up
	err  error
	done chan error
}

// writer guards the only connection that writes. Whoever holds it commits, with its own write,
// those of all who wait for it, in one transaction: many callers share one flush of the disk.
// A caller that is alone works itself and is not passed from goroutine to goroutine.
type writer struct {
	conn *conn
	// free holds one token while nobody has the connection.
	free chan struct{}
	// queue has no buffer: a write that was sent was taken, and one that was not can be
	// withdrawn.
	queue chan *write
	// crowd is whether the last batch had company. Guarded by the token.
	crowd bool

	transactions atomic.Int64 // begun, for tests
}

func newWriter(c *conn) *writer {
	w := &writer{conn: c, free: make(chan struct{}, 1), queue: make(chan *write)}
	w.free <- struct{}{}
	return w
}

// submit has a write executed in a transaction and returns its outcome. If ctx ends before
// somebody took it up, nothing was and nothing will be done. Afterwards ctx has no influence:
// the write gets a context that does not end.
func (w *writer) submit(ctx context.Context, job *write) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not begun: %w", err)
	}
	job.done = make(chan error, 1)
	select {
	case <-w.free:
		w.write(w.gather([]*write{job}))
		w.free <- struct{}{}
	case w.queue <- job:
	case <-ctx.Done():
		return fmt.Errorf("not begun: %w", ctx.Err())
	}
	return <-job.done
}

// gather adds to the batch what waits already.
func (w *writer) gather(batch []*write) []*write {
	if w.crowd {
		// Callers that were answered a moment ago come back with their next write. Let them.
		runtime.Gosched()
	}
	for len(batch) < maxBatch {
		select {
		case job := <-w.queue:
			batch = append(batch, job)
			continue
		default:
		}
		break
	}
	w.crowd = len(batch) > 1
	return batch
}

// write executes the batch and answers its members. It takes several transactions only if a
// member fails late or SQLite ends one in the middle.
func (w *writer) write(batch []*write) {
	apart := false
	for len(batch) > 0 {
		ran, err := w.transact(batch, apart)
		if ran == 0 {
			apart = true
			continue
		}
		for _, job := range batch[:ran] {
			if job.err == nil && err != nil {
				job.err = err
			}
			job.done <- job.err
		}
		batch = batch[ran:]
	}
}

// transact executes members of the batch in one transaction until one of them broke it, and
// returns how many it executed. Members that failed by themselves have their error; if err is
// set, the others have failed with it.
//
// A member that fails takes nothing of the others with it. With apart set, a savepoint for each
// sees to that. It makes SQLite copy every page that the member changes, a sixth of what a write
// costs here, and nearly all that fail do so before they write anything. So the members are
// first tried without, and if one fails late, all is undone, as if nothing had been executed:
// zero is returned.
func (w *writer) transact(batch []*write, apart bool) (ran int, err error) {
	ctx := context.Background()
	w.transactions.Add(1)
	if err := w.conn.exec(ctx, `BEGIN IMMEDIATE`); err != nil {
		return len(batch), err
	}
	defer func() {
		if err != nil {
			w.conn.cache.clear() // it has writes in it that never were
		}
		if !w.conn.raw.AutoCommit() {
			err = errors.Join(err, w.conn.exec(ctx, `ROLLBACK`))
		}
	}()
	for i, job := range batch {
		if apart {
			if err := w.conn.exec(ctx, `SAVEPOINT member`); err != nil {
				return i + 1, err
			}
		}
		before := w.conn.writes
		job.err = w.execute(ctx, job)
		late := job.err != nil && w.conn.writes != before
		switch {
		case w.conn.raw.AutoCommit():
			// After some errors, a full disk for one, SQLite rolls back everything by itself.
			return i + 1, fmt.Errorf("a write of the same transaction failed: %w", job.err)
		case late && len(batch) == 1:
			return 1, nil
		case late && !apart:
			return 0, nil
		case late:
			if err := w.conn.exec(ctx, `ROLLBACK TO member`); err != nil {
				return i + 1, err
			}
		}
		if apart {
			if err := w.conn.exec(ctx, `RELEASE member`); err != nil {
				return i + 1, err
			}
		}
	}
	return len(batch), w.conn.exec(ctx, `COMMIT`)
}

// execute calls the write. A panic in it is its failure, not the writer's. Of a write that
// failed the caller undoes what is in the database; what is in the cache goes here.
func (w *writer) execute(ctx context.Context, job *write) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil || !job.keep {
			w.conn.cache.clear()
		}
	}()
	return job.do(ctx, w.conn)
}
