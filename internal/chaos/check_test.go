//go:build unix

package chaos_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/chaos"
)

var (
	origin     = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	run, other = uuid.UUID{1}, uuid.UUID{2}
	session    = uuid.UUID{3}
	ownerA     = uuid.UUID{10}
	ownerB     = uuid.UUID{11}
	first      = chaos.Checkpoint{Session: session, Run: run, ID: uuid.UUID{20}, Seq: 2}
	second     = chaos.Checkpoint{Session: session, Run: run, ID: uuid.UUID{21}, Parent: first.ID, Seq: 4}
)

// at is a moment, in seconds.
func at(s float64) time.Time { return origin.Add(time.Duration(s * float64(time.Second))) }

// started and ended are the rows of a run that completes under its first owner.
func started() chaos.Row {
	return chaos.Row{At: at(0), Writer: "r0.1", Run: run, Session: session, Status: "running", Owner: ownerA, WriteID: uuid.UUID{30}, Epoch: 1, Last: 2}
}

func ended() chaos.Row {
	r := started()
	r.At, r.Status, r.WriteID, r.Last = at(2), "completed", uuid.UUID{31}, 4
	return r
}

// claimed is what becomes of a row when r1.1 takes the run over.
func claimed(r chaos.Row) chaos.Row {
	r.Owner, r.Epoch, r.Writer = ownerB, 2, "r1.1"
	if !r.Ended() {
		r.At = at(1.5)
	}
	return r
}

func line(life string, after float64, key string) chaos.Line {
	return chaos.Line{Life: life, After: at(after), Before: at(after + 0.01), Run: run, Name: "0.0", Key: key}
}

func once(l chaos.Line) chaos.Line {
	l.Name, l.Once = "0.0!", true
	return l
}

func heard(when float64, seq int64, data event.Data) chaos.Heard {
	return chaos.Heard{Observer: 1, Run: run, At: at(when), Event: event.Event{Seq: seq, Time: at(0), Data: data}}
}

// result is what an observer hears of the call that line writes.
func result(when float64) chaos.Heard {
	content, _ := json.Marshal(run.String() + "/0.0")
	return heard(when, 2, event.ToolCallResult{ToolCallID: "call", Content: content})
}

func trouble(kind chaos.Kind, life string, from, to float64) chaos.Trouble {
	return chaos.Trouble{Kind: kind, Life: life, From: at(from), To: at(to)}
}

const nextOwner = 1<<32 + 1 // the first number of the second owner

// sound is a history in which all is well.
func sound() *chaos.History {
	return &chaos.History{
		Lease: 3 * time.Second, Heartbeat: time.Second, Within: time.Minute, Healed: at(10),
		Ops: []chaos.Op{
			{Name: "start", Code: 202, Run: run, Life: "r0.1"},
			{Name: "get", Code: 200, Run: run, Status: "running", From: at(0.1), To: at(0.2)},
			{Name: "get", Code: 200, Run: run, Status: "completed", From: at(3), To: at(3.1)},
			{Name: "tail", Code: 200, Status: "completed"},
		},
		Rows:        []chaos.Row{started(), ended()},
		Checkpoints: []chaos.Checkpoint{first, second},
		Lines:       []chaos.Line{line("r0.1", 1, "k")},
		Results:     []chaos.Result{{Session: session, Run: run, Call: "call", Content: run.String() + "/0.0"}},
		Streams:     []chaos.Stream{{Observer: 1, Run: run, Whole: true}},
		Heard:       []chaos.Heard{heard(0.1, 1, event.RunStarted{}), result(1.5), heard(2, 3, event.RunFinished{Status: "completed"})},
	}
}

func TestEachInvariantSeesWhatContradictsIt(t *testing.T) {
	t.Parallel()
	require.Empty(t, sound().Check())
	for _, tt := range []struct {
		name    string
		spoil   func(h *chaos.History)
		want    string // the invariant that sees it; empty: none, for it is allowed
		message string
	}{
		{"an accepted run is gone", func(h *chaos.History) {
			h.Ops = append(h.Ops, chaos.Op{Name: "start", Code: 202, Run: other})
		}, "I1", "is not stored"},
		{"a checkpoint is gone", func(h *chaos.History) { h.Checkpoints = h.Checkpoints[:1] }, "I1", "checkpoint 4 was committed"},
		{"a checkpoint is there twice", func(h *chaos.History) {
			h.Checkpoints = append(h.Checkpoints, chaos.Checkpoint{Session: session, Run: other, ID: first.ID, Seq: 5})
		}, "I1", "stored twice"},
		{"a step is missing in the middle", func(h *chaos.History) { h.Checkpoints[1].Parent = uuid.UUID{29} }, "I1", "not " + first.ID.String()},
		{"a result that was heard is gone", func(h *chaos.History) { h.Results = nil }, "I1", "is not stored"},
		{"a result is stored twice", func(h *chaos.History) { h.Results = append(h.Results, h.Results[0]) }, "I1", "two results"},
		{"a result is another one", func(h *chaos.History) { h.Results[0].Content = "what" }, "I1", "is stored"},

		{"an epoch decreases", func(h *chaos.History) {
			h.Rows = []chaos.Row{started(), claimed(started()), ended()}
			h.Troubles = append(h.Troubles, trouble(chaos.Freeze, "r0.1", 0.5, 1))
		}, "I2", "comes after epoch 2"},
		{"an epoch has two owners", func(h *chaos.History) { h.Rows[1].Owner = ownerB }, "I2", "two owners"},
		{"a zombie commits", func(h *chaos.History) {
			r := claimed(ended())
			r.Writer = "r0.1"
			h.Rows = []chaos.Row{started(), claimed(started()), r}
			h.Troubles = append(h.Troubles, trouble(chaos.Freeze, "r0.1", 0.5, 1))
		}, "I2", "r0.1 wrote in epoch 2, which is of r1.1"},
		{"a zombie keeps a task", func(h *chaos.History) {
			r := claimed(started())
			r.Writer, r.Places = "r0.1", 1
			h.Rows = []chaos.Row{started(), claimed(started()), r, claimed(ended())}
			h.Troubles = append(h.Troubles, trouble(chaos.Freeze, "r0.1", 0.5, 1))
		}, "I2", "r0.1 wrote in epoch 2, which is of r1.1"},
		{"a run is taken from a healthy owner", func(h *chaos.History) {
			h.Rows = []chaos.Row{started(), claimed(started()), claimed(ended())}
		}, "I2", "which had not released it"},
		{"a run is taken from an owner that was told to end and did not release it", func(h *chaos.History) {
			h.Rows = []chaos.Row{started(), claimed(started()), claimed(ended())}
			h.Troubles = append(h.Troubles, trouble(chaos.Terminate, "r0.1", 0.5, 1))
		}, "I2", "which had not released it"},
		{"a run is taken from an owner that was killed", func(h *chaos.History) {
			h.Rows = []chaos.Row{started(), claimed(started()), claimed(ended())}
			h.Troubles = append(h.Troubles, trouble(chaos.Kill, "r0.1", 0.5, 1))
		}, "", ""},
		{"a run is taken from an owner that released it", func(h *chaos.History) {
			r := started()
			r.Owner = uuid.Nil
			h.Rows = []chaos.Row{started(), r, claimed(started()), claimed(ended())}
		}, "", ""},
		{"somebody else cancels", func(h *chaos.History) {
			r := started()
			r.Writer, r.Cancel = "r2.1", true
			h.Rows = []chaos.Row{started(), r, ended()}
		}, "", ""},
		{"a number is two events", func(h *chaos.History) {
			e := heard(1, 1, event.ToolCallEnd{ToolCallID: "x"})
			e.Observer = 2
			h.Heard = append(h.Heard, e)
		}, "I2", "number 1 is both"},

		{"a call is made after its result was heard", func(h *chaos.History) {
			h.Lines = append(h.Lines, line("r1.1", 1.6, "k"))
			h.Troubles = append(h.Troubles, trouble(chaos.Kill, "r0.1", 1.1, 1.2))
		}, "I3", "after its result had been heard"},
		{"a call is made again under another key", func(h *chaos.History) {
			h.Lines = append(h.Lines, line("r1.1", 1.2, "k2"))
			h.Troubles = append(h.Troubles, trouble(chaos.Kill, "r0.1", 1.1, 1.2))
		}, "I3", "under the keys"},
		{"two calls have a key", func(h *chaos.History) {
			l := line("r0.1", 1, "k")
			l.Name = "0.1"
			h.Lines = append(h.Lines, l)
		}, "I3", "the same key"},
		{"a call has no key", func(h *chaos.History) { h.Lines[0].Key = "" }, "I3", `the same key ""`},
		{"a call is made again for no reason", func(h *chaos.History) { h.Lines = append(h.Lines, line("r1.1", 1.2, "k")) }, "I3", "nothing was wrong"},
		{"a call is made again because of another's trouble", func(h *chaos.History) {
			h.Lines = append(h.Lines, line("r1.1", 1.2, "k"))
			h.Troubles = append(h.Troubles, trouble(chaos.Kill, "r2.1", 1.1, 1.2))
		}, "I3", "nothing was wrong"},
		{"a call is made again because of a SIGTERM", func(h *chaos.History) {
			h.Lines = append(h.Lines, line("r1.1", 1.2, "k"))
			h.Troubles = append(h.Troubles, trouble(chaos.Terminate, "r0.1", 1.1, 1.2))
		}, "I3", "nothing was wrong"},
		{"a call is made again after a kill", func(h *chaos.History) {
			h.Lines = append(h.Lines, line("r1.1", 1.2, "k"))
			h.Troubles = append(h.Troubles, trouble(chaos.Kill, "r0.1", 1.1, 1.2))
		}, "", ""},
		{"a call is made again after the database crashed", func(h *chaos.History) {
			h.Lines = append(h.Lines, line("r0.1", 1.2, "k"))
			h.Troubles = append(h.Troubles, trouble(chaos.Crash, "", 1.1, 1.2))
		}, "", ""},
		{"a zombie wakes up in the middle of a call", func(h *chaos.History) {
			h.Lines = append(h.Lines, line("r1.1", 5.1, "k"))
			h.Troubles = append(h.Troubles, trouble(chaos.Freeze, "r1.1", 0.5, 5))
		}, "", ""},
		{"a zombie goes on for long", func(h *chaos.History) {
			h.Lines = append(h.Lines, line("r1.1", 7, "k"))
			h.Troubles = append(h.Troubles, trouble(chaos.Freeze, "r1.1", 0.5, 5))
		}, "I3", "after its result had been heard"},

		{"an at-most-once call is made twice", func(h *chaos.History) {
			h.Lines = append(h.Lines, once(line("r0.1", 1, "k3")), once(line("r1.1", 1.2, "k3")))
			h.Troubles = append(h.Troubles, trouble(chaos.Kill, "r0.1", 1.1, 1.2))
		}, "I4", "and again by r1.1"},

		{"a stream does not begin at the beginning", func(h *chaos.History) { h.Heard = h.Heard[1:] }, "I5", "begins with 2"},
		{"an event is missing", func(h *chaos.History) { h.Heard[2].Event.Seq = 4 }, "I5", "a gap"},
		{"an event comes twice", func(h *chaos.History) {
			h.Heard = append(h.Heard[:2:2], h.Heard[1], h.Heard[2])
		}, "I5", "twice"},
		{"events go backwards", func(h *chaos.History) {
			h.Heard = append(h.Heard[:2:2], h.Heard[0], h.Heard[2])
		}, "I5", "backwards"},
		{"there is something after the end", func(h *chaos.History) {
			h.Heard = append(h.Heard, heard(3, 4, event.ToolCallEnd{}))
		}, "I5", "that was the last one"},
		{"the last event never comes", func(h *chaos.History) { h.Heard = h.Heard[:2] }, "I5", "never got its last event"},
		{"a new owner does not begin at its beginning", func(h *chaos.History) { h.Heard[2].Event.Seq = nextOwner + 1 }, "I5", "a gap"},
		{"a new owner begins", func(h *chaos.History) { h.Heard[2].Event.Seq = nextOwner }, "", ""},
		{"a snapshot heals a gap", func(h *chaos.History) {
			h.Heard = append(h.Heard[:2:2], heard(1.6, 7, event.MessagesSnapshot{}), heard(2, 8, event.RunFinished{Status: "completed"}))
		}, "", ""},
		{"an observer goes away", func(h *chaos.History) { h.Heard, h.Streams[0].GaveUp = h.Heard[:2], true }, "", ""},

		{"an end changes", func(h *chaos.History) {
			r := ended()
			r.Status = "cancelled"
			h.Rows = append(h.Rows, r, ended())
		}, "I6", "had ended completed"},
		{"a run goes on after its end", func(h *chaos.History) {
			h.Rows = append(h.Rows, claimed(ended()))
		}, "I6", "had ended"},
		{"a replica says that an ended run goes on", func(h *chaos.History) {
			h.Ops = append(h.Ops, chaos.Op{Name: "get", Code: 200, Run: run, Status: "running", From: at(4), To: at(4.1)})
		}, "I6", "was completed for"},
		{"an observer hears of another end", func(h *chaos.History) {
			h.Heard[2].Event.Data = event.RunError{Code: "lost"}
		}, "I6", "heard of the end failed lost"},

		{"a tool starts long after a cancel", func(h *chaos.History) {
			h.Ops = append(h.Ops, chaos.Op{Name: "cancel", Code: 204, Run: run, From: at(-2), To: at(-1.9)})
		}, "I7", "the cancel was acknowledged"},
		{"a tool starts soon after a cancel", func(h *chaos.History) {
			h.Ops = append(h.Ops, chaos.Op{Name: "cancel", Code: 204, Run: run, From: at(-0.5), To: at(-0.4)})
		}, "", ""},
		{"a tool starts long after a cancel that its process could not hear of", func(h *chaos.History) {
			h.Ops = append(h.Ops, chaos.Op{Name: "cancel", Code: 204, Run: run, From: at(-4), To: at(-3.9)})
			h.Troubles = append(h.Troubles, trouble(chaos.DarkLong, "r0.1", -4, -1))
		}, "", ""},

		{"a session has two active runs", func(h *chaos.History) {
			r := started()
			r.Run, r.Last = other, 0
			e := r
			e.Status, e.WriteID = "completed", uuid.UUID{32}
			h.Rows = []chaos.Row{started(), r, ended(), e}
		}, "I8", "became active"},
		{"a run waits for its session", func(h *chaos.History) {
			r := started()
			r.Run, r.Last, r.Waiting = other, 0, true
			a := r
			a.Waiting = false
			e := a
			e.Status, e.WriteID = "completed", uuid.UUID{32}
			h.Rows = []chaos.Row{started(), r, ended(), a, e}
		}, "", ""},

		{"a run never ends", func(h *chaos.History) { h.Rows, h.Heard, h.Streams = h.Rows[:1], nil, nil }, "I9", "has not ended"},
		{"a run ends too late", func(h *chaos.History) { h.Rows[1].At = at(100) }, "I9", "after all was healed"},
		{"a run is cancelled by nobody", func(h *chaos.History) {
			h.Rows[1].Status, h.Heard = "cancelled", nil
		}, "I9", "nobody asked for that"},
		{"a detached run is lost", func(h *chaos.History) {
			h.Rows[1].Status, h.Rows[1].Code = "failed", "lost"
		}, "I9", `failed with code "lost"`},
		{"the store makes a run fail", func(h *chaos.History) {
			h.Rows[1].Status, h.Rows[1].Code = "failed", "node_error"
		}, "I9", `failed with code "node_error"`},
		{"a replica never serves again", func(h *chaos.History) {
			h.Ops = append(h.Ops, chaos.Op{Name: "tail", Replica: 1, Code: 503})
		}, "I9", "replica 1 serves nothing"},
		{"no replica is tried", func(h *chaos.History) { h.Ops = h.Ops[:3] }, "I9", "no replica was tried"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := sound()
			tt.spoil(h)
			if tt.want == "" {
				require.Empty(t, h.Check())
				return
			}
			for _, i := range chaos.Invariants {
				if i.Name == tt.want {
					require.NotEmpty(t, i.Check(h), "%s", i.Sentence)
					require.Contains(t, i.Check(h)[0], tt.message)
				}
			}
		})
	}
}

func TestAFaultIsAViolation(t *testing.T) {
	t.Parallel()
	h := sound()
	h.Faults = []string{"r0.1 ended by itself"}
	require.Equal(t, h.Faults, h.Check())
}

func TestTheSameSeedMakesTheSamePlan(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	plan := chaos.Plan(1, 50, 3, lease)
	require.Len(t, plan, 50)
	require.Equal(t, plan, chaos.Plan(1, 50, 3, lease))
	require.NotEqual(t, plan, chaos.Plan(2, 50, 3, lease))
	seen := map[chaos.Kind]bool{}
	for _, in := range plan[:len(chaos.Kinds)] {
		seen[in.Kind] = true
	}
	require.Len(t, seen, len(chaos.Kinds), "each kind once")
	for _, in := range plan {
		switch in.Kind {
		case chaos.Freeze, chaos.DarkLong:
			require.Greater(t, in.Hold, lease)
		case chaos.DarkShort:
			require.Less(t, in.Hold, lease)
		}
	}
}
