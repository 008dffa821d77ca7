package powercut

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/sqlite"
)

const tenant = "acme"

// A fact is what a store acknowledged, and must show from then on.
type fact struct {
	acked      int // place of the acknowledgement in the record
	session    uuid.UUID
	run        uuid.UUID // of a checkpoint or a task
	checkpoint uuid.UUID
	seq        int64  // of the checkpoint
	task       string // kept under the checkpoint as long as it is the run's last
	message    uuid.UUID
	ended      bool // the run has, with this
}

// A history is a record of the disk with what was acknowledged meanwhile.
type history struct {
	ops   []op
	facts []fact
	// What was sent, acknowledged or not: nothing else may be found, and none of it in part.
	steps    map[uuid.UUID]store.Step
	together map[uuid.UUID][]uuid.UUID // checkpoints of one commit
	messages map[uuid.UUID]store.Message
}

// A script is one session's work, all of it in order.
type script struct {
	*testing.T
	chance  *rand.Rand
	number  int
	ids     uint32
	session uuid.UUID
	mu      *sync.Mutex // guards history
	history *history
	head    int64
	base    int64
}

// live records a store's life: opened and closed phase by phase, with a script for each session. With
// crowd set, the scripts run at once, and their writes share transactions; otherwise they take
// turns, and the record is the same each time.
func live(t *testing.T, opts sqlite.Options, seed uint64, phases, sessions, commits int, crowd bool) *history {
	dir := t.TempDir()
	h := &history{steps: map[uuid.UUID]store.Step{}, together: map[uuid.UUID][]uuid.UUID{}, messages: map[uuid.UUID]store.Message{}}
	var mu sync.Mutex
	var scripts []*script
	for i := range sessions {
		s := &script{T: t, chance: rand.New(rand.NewPCG(seed, uint64(i))), number: i, mu: &mu, history: h}
		s.session = s.id()
		scripts = append(scripts, s)
	}
	opts.Readers, opts.Now = 1, ticking()
	ops, err := record(dir, func() {
		for range phases {
			st, err := sqlite.Open(filepath.Join(dir, database), &opts)
			require.NoError(t, err)
			if crowd {
				var wg sync.WaitGroup
				for _, s := range scripts {
					wg.Go(func() { s.play(st, commits) })
				}
				wg.Wait()
			} else {
				for range commits {
					for _, s := range scripts {
						s.play(st, 1)
					}
				}
			}
			require.NoError(t, st.Close())
		}
	})
	require.NoError(t, err)
	h.ops = ops
	for i, o := range ops {
		if o.kind == marker {
			h.facts[o.offset].acked = i
		}
	}
	return h
}

const database = "everstep.db"

// ticking returns a clock that moves by a millisecond each time it is read.
func ticking() func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Millisecond)
		return now
	}
}

// id returns the script's next id.
func (s *script) id() uuid.UUID {
	s.ids++
	id := uuid.UUID{6: 0x40, 8: 0x80, 9: byte(s.number)}
	binary.BigEndian.PutUint32(id[:], s.ids*0x9e3779b1)
	binary.BigEndian.PutUint32(id[12:], s.ids)
	return id
}

// acknowledged adds facts, right when the call that made them has returned.
func (s *script) acknowledged(facts ...fact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range facts {
		f.session = s.session
		s.history.facts = append(s.history.facts, f)
		mark(len(s.history.facts) - 1)
	}
}

// play does some runs of a few commits each, with tasks, and messages between them.
func (s *script) play(st store.Store, commits int) {
	ctx := context.Background()
	for commits > 0 {
		f := store.Fence{Tenant: tenant, Run: s.id(), Owner: s.id(), Epoch: 1}
		steps := s.steps(f.Run, 1, true)
		begun, err := st.Begin(ctx, &store.Begin{
			Fence: f, Session: s.session, Graph: "graph", Params: []byte("params"), WriteID: s.id(),
			From: store.From{Head: s.head, Base: s.base}, Steps: steps, Status: checkpoint.Running, Lease: time.Minute,
		})
		if err != nil {
			s.Errorf("Begin: %v", err)
			return
		}
		s.base = begun.Base
		last := s.wrote(f.Run, steps, begun.Seqs, false)
		n := min(commits, 1+s.chance.IntN(5))
		commits -= n
		for i := range n {
			for range s.chance.IntN(3) {
				task := store.Task{Key: s.id().String(), Done: true, Value: []byte("result")}
				if err := st.SaveTask(ctx, &store.SaveTask{Fence: f, Checkpoint: last.seq, Task: task}); err != nil {
					s.Errorf("SaveTask: %v", err)
					return
				}
				s.acknowledged(fact{run: f.Run, checkpoint: last.checkpoint, seq: last.seq, task: task.Key})
			}
			c := &store.Commit{
				Fence: f, WriteID: s.id(), After: last.seq, Steps: s.steps(f.Run, 1+s.chance.IntN(2), false),
				Status: checkpoint.Running, Lease: time.Minute,
			}
			if i == n-1 {
				c.Status = checkpoint.Completed
			}
			done, err := st.Commit(ctx, c)
			if err != nil {
				s.Errorf("Commit: %v", err)
				return
			}
			last = s.wrote(f.Run, c.Steps, done.Seqs, c.Status.Ended())
		}
		s.head = last.seq
		s.say(st)
	}
}

// say adds a message outside of runs.
func (s *script) say(st store.Store) {
	m := s.message(uuid.Nil)
	m.SessionID = s.session
	made, err := st.CreateMessage(context.Background(), tenant, &m)
	if err != nil {
		s.Errorf("CreateMessage: %v", err)
		return
	}
	s.acknowledged(fact{message: made.ID})
	s.base++
}

// wrote notes checkpoints that were acknowledged, and returns the last.
func (s *script) wrote(run uuid.UUID, steps []store.Step, seqs []int64, ended bool) fact {
	var facts []fact
	for i, seq := range seqs {
		facts = append(facts, fact{run: run, checkpoint: steps[i].Checkpoint.ID, seq: seq, ended: ended && i == len(seqs)-1})
	}
	s.acknowledged(facts...)
	return facts[len(facts)-1]
}

// steps makes steps and notes that they will be sent together.
func (s *script) steps(run uuid.UUID, n int, whole bool) []store.Step {
	var steps []store.Step
	var ids []uuid.UUID
	for range n {
		step := store.Step{Checkpoint: checkpoint.Checkpoint{
			ID: s.id(), SessionID: s.session, RunID: run, Node: "node", Status: checkpoint.Running, Reason: checkpoint.Step,
		}}
		step.Document = &store.Document{Patch: !whole, Body: fmt.Appendf(nil, `[{"op":"add","path":"/at","value":%q}]`, step.Checkpoint.ID)}
		for range 1 + s.chance.IntN(3) {
			step.Messages = append(step.Messages, s.message(run))
		}
		steps, ids = append(steps, step), append(ids, step.Checkpoint.ID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range steps {
		s.history.steps[step.Checkpoint.ID], s.history.together[step.Checkpoint.ID] = step, ids
	}
	return steps
}

// message makes one of some hundred bytes, rarely of several pages.
func (s *script) message(run uuid.UUID) store.Message {
	size := 100 + s.chance.IntN(500)
	if s.chance.IntN(20) == 0 {
		size = 20_000
	}
	m := store.Message{Header: message.Header{ID: s.id(), RunID: run}, Role: message.RoleUser}
	m.Body = fmt.Appendf(nil, `{"content":"%s %0*d"}`, m.ID, size, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.messages[m.ID] = m
	return m
}
