package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// A run is a run as its owner knows it: what it shows, and where it stands.
type run struct {
	b *bundle
	store.Fence
	session uuid.UUID
	begun   *store.Begun
	line    int64
	last    int64     // sequence of its last checkpoint
	at      uuid.UUID // id of its last checkpoint
}

// An option changes a [store.Begin].
type option func(*store.Begin)

// from starts the run from an explicit checkpoint.
func from(checkpoint uuid.UUID) option {
	return func(b *store.Begin) { b.From.Checkpoint = checkpoint }
}

// waiting lets the run wait for its session.
func waiting(b *store.Begin) { b.Wait = true }

// with writes the run's first checkpoints with it.
func with(steps ...store.Step) option { return func(b *store.Begin) { b.Steps = steps } }

// ended records a run that is over.
func ended(status checkpoint.Status) option { return func(b *store.Begin) { b.Status = status } }

func graph(name string) option { return func(b *store.Begin) { b.Graph = name } }

// newBegin returns the Begin of a new run that goes on from the session as it is now.
func (b *bundle) newBegin(session uuid.UUID, opts ...option) *store.Begin {
	begin := &store.Begin{
		Fence:   store.Fence{Tenant: tenant, Run: uuid.New(), Owner: uuid.New(), Epoch: 1},
		Session: session,
		Graph:   "graph",
		WriteID: uuid.New(),
		Status:  checkpoint.Running,
		Lease:   lease,
	}
	if s, err := b.store.Session(b.ctx, tenant, session); err == nil {
		begin.From.Head, begin.From.Base = s.Head, s.Base
	}
	for _, o := range opts {
		o(begin)
	}
	stamp(begin.Steps, begin.Session, begin.Run)
	return begin
}

// start begins a run, which must work.
func (b *bundle) start(session uuid.UUID, opts ...option) *run {
	b.Helper()
	r, err := b.begin(b.newBegin(session, opts...))
	require.NoError(b, err)
	return r
}

// begin begins a run, which may be refused.
func (b *bundle) begin(begin *store.Begin) (*run, error) {
	begun, err := b.store.Begin(b.ctx, begin)
	if err != nil {
		return nil, err
	}
	r := &run{b: b, Fence: begin.Fence, session: begin.Session, begun: begun, line: begun.Line}
	r.wrote(begin.Steps, &begun.Committed)
	return r, nil
}

// whole starts and ends a plain run with the given steps.
func (b *bundle) whole(session uuid.UUID, steps ...store.Step) *run {
	b.Helper()
	return b.start(session, with(steps...), ended(checkpoint.Completed))
}

// newCommit returns the next write of the run.
func (r *run) newCommit(status checkpoint.Status, steps ...store.Step) *store.Commit {
	stamp(steps, r.session, r.Run)
	return &store.Commit{
		Fence: r.Fence, WriteID: uuid.New(), After: r.last, Steps: steps, Status: status, Lease: lease,
	}
}

// send sends a commit, and follows it if it was taken.
func (r *run) send(c *store.Commit) (*store.Committed, error) {
	done, err := r.b.store.Commit(r.b.ctx, c)
	if err == nil {
		r.wrote(c.Steps, done)
	}
	return done, err
}

func (r *run) wrote(steps []store.Step, done *store.Committed) {
	if n := len(done.Seqs); n > 0 && n == len(steps) {
		r.last, r.at = done.Seqs[n-1], steps[n-1].Checkpoint.ID
	}
}

// commit writes steps, which must work.
func (r *run) commit(steps ...store.Step) *store.Committed {
	r.b.Helper()
	done, err := r.send(r.newCommit(checkpoint.Running, steps...))
	require.NoError(r.b, err)
	require.Len(r.b, done.Seqs, len(steps))
	return done
}

// tryCommit writes steps, which may be refused.
func (r *run) tryCommit(steps ...store.Step) error {
	_, err := r.send(r.newCommit(checkpoint.Running, steps...))
	return err
}

// end writes steps and ends the run, which must work.
func (r *run) end(status checkpoint.Status, steps ...store.Step) *store.Committed {
	r.b.Helper()
	done, err := r.send(r.newCommit(status, steps...))
	require.NoError(r.b, err)
	return done
}

// saveTask keeps a task of the run's last checkpoint.
func (r *run) saveTask(key string, done bool, value string) error {
	return r.b.store.SaveTask(r.b.ctx, &store.SaveTask{
		Fence: r.Fence, Checkpoint: r.last, Task: store.Task{Key: key, Done: done, Value: []byte(value)},
	})
}

func (r *run) promote() (bool, error) { return r.b.store.Promote(r.b.ctx, r.Fence) }

func (r *run) record() *store.Run {
	r.b.Helper()
	return r.b.runRecord(r.Run)
}

// claimed returns the run in the hands of another owner, after its lease ran out.
func (r *run) claimed() *run {
	r.b.Helper()
	r.b.clock.move(2 * lease)
	runs, err := r.b.store.Claim(r.b.ctx, &store.Claim{
		Owner: uuid.New(), Graphs: []string{r.record().Graph}, Lease: lease, Limit: 100,
	})
	require.NoError(r.b, err)
	for i := range runs {
		if runs[i].ID == r.Run {
			next := *r
			next.Fence = runs[i].Fence()
			return &next
		}
	}
	require.Fail(r.b, "a run whose lease has run out was not claimed")
	return nil
}

// step returns a checkpoint that brings messages.
func step(messages ...string) store.Step {
	s := store.Step{Checkpoint: checkpoint.Checkpoint{
		ID: uuid.New(), Node: "node", Next: "next", Status: checkpoint.Running, Reason: checkpoint.Step, Version: 1,
	}}
	for _, text := range messages {
		s.Messages = append(s.Messages, say(text))
	}
	return s
}

// document returns a checkpoint that brings a whole document.
func document(body string) store.Step {
	s := step()
	s.Document = &store.Document{Body: []byte(body)}
	return s
}

// patch returns a checkpoint that patches the document before.
func patch(body string) store.Step {
	s := step()
	s.Document = &store.Document{Patch: true, Body: []byte(body)}
	return s
}

// stamp fills in what a runner knows of its checkpoints.
func stamp(steps []store.Step, session, run uuid.UUID) {
	for i := range steps {
		steps[i].Checkpoint.SessionID, steps[i].Checkpoint.RunID = session, run
		if i > 0 {
			steps[i].Checkpoint.ParentID = steps[i-1].Checkpoint.ID
		}
	}
}
