package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
)

// An Invariant is a sentence that every history must bear out.
type Invariant struct {
	Name     string
	Sentence string
	// Check returns what contradicts the sentence.
	Check func(h *History) []string
}

// Invariants are all that are checked.
var Invariants = []Invariant{
	{"I1", "What was acknowledged is stored, once, and the steps of a run have no gap.", checkSteps},
	{"I2", "The epochs of a run never decrease, and each has one owner, who alone writes and speaks, and who loses the run only if something was wrong with it.", checkOwners},
	{"I3", "A tool call whose result was acknowledged is never executed again, and none without need; if it is, then under the same key.", checkExecutions},
	{"I4", "A call of an at-most-once tool is never started twice.", checkOnce},
	{"I5", "Each observer gets the events of its run in order, without a gap that no snapshot heals, none twice, up to the last.", checkStreams},
	{"I6", "How a run ended never changes, and everybody hears the same of it.", checkEnds},
	{"I7", "After a cancel is acknowledged, no tool of the run starts later than the bound.", checkCancels},
	{"I8", "A session has at most one active run.", checkSessions},
	{"I9", "When all is healed, every run ends in time, for a reason, and every replica serves.", checkTail},
}

// Check returns all that contradicts the invariants, and the faults that were recorded.
func (h *History) Check() (violations []string) {
	violations = slices.Clone(h.Faults)
	for _, i := range Invariants {
		for _, v := range i.Check(h) {
			violations = append(violations, i.Name+": "+v)
		}
	}
	return violations
}

// found collects what a check finds.
type found []string

func (f *found) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func checkSteps(h *History) (f []string) {
	out := (*found)(&f)
	rows := h.rowsOf()
	for _, o := range h.Ops {
		if o.Accepted() && len(rows[o.Run]) == 0 {
			out.add("run %s was accepted by %s and is not stored", o.Run, o.Life)
		}
	}
	ids := map[uuid.UUID]bool{}
	last := map[uuid.UUID]Checkpoint{}
	stored := map[string]bool{}
	for _, c := range h.Checkpoints {
		if ids[c.ID] {
			out.add("checkpoint %s is stored twice", c.ID)
		}
		ids[c.ID] = true
		stored[fmt.Sprint(c.Run, c.Seq)] = true
		if before, ok := last[c.Run]; ok && c.Parent != before.ID {
			out.add("run %s: checkpoint %s (%d) follows %s, not %s, the one before it", c.Run, c.ID, c.Seq, c.Parent, before.ID)
		}
		last[c.Run] = c
	}
	for _, r := range h.Rows {
		if r.Last > 0 && !stored[fmt.Sprint(r.Run, r.Last)] {
			out.add("run %s: checkpoint %d was committed by %s and is not stored", r.Run, r.Last, r.Writer)
			stored[fmt.Sprint(r.Run, r.Last)] = true // said once
		}
	}
	return append(f, checkResults(h)...)
}

// checkResults compares the results that were heard with those that are stored.
func checkResults(h *History) (f []string) {
	out := (*found)(&f)
	type call struct {
		run uuid.UUID
		id  string
	}
	results := map[call]Result{}
	seen := map[string]bool{}
	for _, r := range h.Results {
		if key := r.Session.String() + r.Call; seen[key] {
			out.add("session %s: call %s has two results", r.Session, r.Call)
		} else {
			seen[key] = true
		}
		results[call{r.Run, r.Call}] = r
	}
	told := map[call]bool{}
	for _, e := range h.Heard {
		var c call
		want := ""
		switch d := e.Event.Data.(type) {
		case event.ToolCallResult:
			c, want = call{e.Run, d.ToolCallID}, plainText(d.Content)
		case event.ToolCallError:
			c = call{e.Run, d.ToolCallID}
		default:
			continue
		}
		if told[c] {
			continue
		}
		r, ok := results[c]
		if !ok {
			out.add("run %s: the outcome of call %s was heard and is not stored", c.run, c.id)
		} else if want != "" && r.Content != want {
			out.add("run %s: call %s was heard to return %q, and %q is stored", c.run, c.id, want, r.Content)
		}
		told[c] = !ok || want != "" && r.Content != want
	}
	return f
}

// plainText is a JSON text as a message has it.
func plainText(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	return string(content)
}

func checkOwners(h *History) (f []string) {
	out := (*found)(&f)
	for run, rows := range h.rowsOf() {
		claims := map[int64]Row{} // of each epoch, the first row with an owner
		for i, r := range rows {
			if i > 0 && r.Epoch < rows[i-1].Epoch {
				out.add("run %s: epoch %d of %s comes after epoch %d of %s", run, r.Epoch, r.Writer, rows[i-1].Epoch, rows[i-1].Writer)
				continue
			}
			claim, claimed := claims[r.Epoch]
			switch {
			case r.Owner == uuid.Nil:
			case !claimed:
				claims[r.Epoch] = r
				claim = r
			case claim.Owner != r.Owner:
				out.add("run %s: epoch %d has two owners, of %s and of %s", run, r.Epoch, claim.Writer, r.Writer)
			}
			if i > 0 && r.Epoch > rows[i-1].Epoch && rows[i-1].Owner != uuid.Nil {
				if from := claims[rows[i-1].Epoch]; !h.unwell(from, r.At) {
					out.add("run %s: %s took it from %s at %s, which had not released it, and with which nothing was wrong", run, r.Writer, from.Writer, clock(r.At))
				}
			}
			wrote := i > 0 && r.Epoch == rows[i-1].Epoch && (r.WriteID != rows[i-1].WriteID || r.Last != rows[i-1].Last && r.Last > 0 || r.Places > rows[i-1].Places)
			if wrote && r.Writer != claim.Writer {
				out.add("run %s: %s wrote in epoch %d, which is of %s", run, r.Writer, r.Epoch, claim.Writer)
			}
		}
	}
	return append(f, checkVoices(h)...)
}

// unwell reports whether something was wrong with the owner of a run before another one took it. That it
// was told to end is no reason: it hands over what it has.
func (h *History) unwell(owner Row, until time.Time) bool {
	for _, t := range h.troubled(owner.Writer, owner.At.Add(-h.Lease), until) {
		if t.Kind != Terminate {
			return true
		}
	}
	return false
}

// checkVoices wants each number of a run to be one event, whoever heard it: two owners at once would
// give the same numbers to different events.
func checkVoices(h *History) (f []string) {
	out := (*found)(&f)
	type number struct {
		run uuid.UUID
		seq int64
	}
	said := map[number]string{}
	for _, heard := range h.streams() {
		for i, e := range heard {
			if madeUp(e) || event.Terminal(e.Event.Data) && (e.First || madeUp(heard[max(i-1, 0)])) {
				continue // numbered by whoever the observer asked
			}
			text, err := e.Event.AppendJSON(nil)
			if err != nil {
				out.add("run %s: event %d: %v", e.Run, e.Event.Seq, err)
				continue
			}
			key := number{e.Run, e.Event.Seq}
			if before, ok := said[key]; ok && before != string(text) {
				out.add("run %s: number %d is both %s and %s", e.Run, e.Event.Seq, before, text)
			}
			said[key] = string(text)
		}
	}
	return f
}

// madeUp reports whether an event may be a snapshot, made for this observer. The run itself
// says some, too.
func madeUp(e Heard) bool {
	switch e.Event.Data.(type) {
	case event.StateSnapshot, event.MessagesSnapshot:
		return true
	}
	return false
}

func checkExecutions(h *History) (f []string) {
	out := (*found)(&f)
	byCall, byKey := map[string][]Line{}, map[string]string{}
	for _, l := range h.Lines {
		byCall[l.call()] = append(byCall[l.call()], l)
		if other, ok := byKey[l.Key]; l.Key == "" || ok && other != l.call() {
			out.add("%s and %s have the same key %q", other, l.call(), l.Key)
		}
		byKey[l.Key] = l.call()
	}
	heard := map[string]time.Time{}
	for _, e := range h.Heard {
		if d, ok := e.Event.Data.(event.ToolCallResult); ok {
			if call := plainText(d.Content); heard[call].IsZero() || e.At.Before(heard[call]) {
				heard[call] = e.At
			}
		}
	}
	for _, call := range slices.Sorted(maps.Keys(byCall)) {
		lines := byCall[call]
		slices.SortStableFunc(lines, func(a, b Line) int { return a.After.Compare(b.After) })
		for i, l := range lines {
			if l.Key != lines[0].Key {
				out.add("%s was executed under the keys %q and %q", call, lines[0].Key, l.Key)
			}
			if at := heard[call]; !at.IsZero() && l.After.After(at) && !h.overlaps(l, at) {
				out.add("%s was executed by %s at %s, after its result had been heard at %s", call, l.Life, clock(l.Before), clock(at))
			}
			if i > 0 && !h.excused(lines[i-1], l) {
				out.add("%s was executed by %s at %s and again by %s at %s, and nothing was wrong with %s between", call, lines[i-1].Life, clock(lines[i-1].Before), l.Life, clock(l.Before), lines[i-1].Life)
			}
		}
	}
	return f
}

// awake is how soon after it was woken a process writes what it was about to write.
const awake = time.Second

// overlaps reports whether a line is of an execution that began before its process was frozen, while the call
// was made elsewhere. Nobody can stop a process between the check and the act:
// that is what the key is for.
func (h *History) overlaps(l Line, elsewhere time.Time) bool {
	for _, t := range h.Troubles {
		if t.Life == l.Life && t.Kind == Freeze && t.From.Before(elsewhere) && !l.Before.After(t.To.Add(awake)) {
			return true
		}
	}
	return false
}

// excused reports whether there was a reason to execute again what the first one had begun. That a
// process is told to end is none before it has had the time to finish.
func (h *History) excused(first, again Line) bool {
	if h.overlaps(again, first.Before) {
		return true
	}
	for _, t := range h.troubled(first.Life, first.After.Add(-h.Lease), again.Before) {
		if t.Kind != Terminate || again.Before.Sub(t.From) >= drain {
			return true
		}
	}
	return false
}

func checkOnce(h *History) (f []string) {
	out := (*found)(&f)
	lines := map[string]Line{}
	for _, l := range h.Lines {
		if !l.Once {
			continue
		}
		if first, ok := lines[l.call()]; ok {
			out.add("%s was started by %s at %s and again by %s at %s", l.call(), first.Life, clock(first.Before), l.Life, clock(l.Before))
		}
		lines[l.call()] = l
	}
	return f
}

func checkStreams(h *History) (f []string) {
	out := (*found)(&f)
	all := h.streams()
	for _, s := range h.Streams {
		heard := all[s.Observer]
		for i, e := range heard {
			if i == 0 {
				if s.Whole && e.Event.Seq != 1 && !madeUp(e) {
					out.add("run %s: observer %d, who wants all, begins with %d (%s)", s.Run, s.Observer, e.Event.Seq, e.Event.Data.Kind())
				}
				continue
			}
			if reason := follows(heard[i-1], e); reason != "" {
				out.add("run %s: observer %d got %d (%s) after %d (%s): %s", s.Run, s.Observer,
					e.Event.Seq, e.Event.Data.Kind(), heard[i-1].Event.Seq, heard[i-1].Event.Data.Kind(), reason)
			}
		}
		if !s.GaveUp && (len(heard) == 0 || !event.Terminal(heard[len(heard)-1].Event.Data)) {
			out.add("run %s: observer %d never got its last event, after %d others", s.Run, s.Observer, len(heard))
		}
	}
	return f
}

// follows says what is wrong with an event after another one, if anything is.
func follows(before, e Heard) string {
	last, now := before.Event.Seq, e.Event.Seq
	switch {
	case event.Terminal(before.Event.Data):
		return "that was the last one"
	case madeUp(e) && now >= last:
		return "" // heals whatever is missing; its parts may share a number
	case now == last:
		return "twice"
	case now < last:
		return "backwards"
	case now == last+1:
		return ""
	case epochOf(e.Event) > epochOf(before.Event) && (now-1)&(1<<32-1) == 0:
		return "" // the first of a new owner
	}
	return "a gap"
}

func checkEnds(h *History) (f []string) {
	out := (*found)(&f)
	final := map[uuid.UUID]Row{}
	for _, r := range h.Rows {
		if before, ok := final[r.Run]; ok && before.Ended() && (before.Status != r.Status || before.Code != r.Code || before.Last != r.Last || before.Epoch != r.Epoch) {
			out.add("run %s had ended %s %s, and %s made it %s %s (%d after %d)", r.Run, before.Status, before.Code, r.Writer, r.Status, r.Code, r.Last, before.Last)
		}
		final[r.Run] = r
	}
	ops := slices.Clone(h.Ops)
	slices.SortStableFunc(ops, func(a, b Op) int { return a.From.Compare(b.From) })
	ended := map[uuid.UUID]Op{} // the first to say so
	for _, o := range ops {
		if o.Name != "get" || o.Code != 200 {
			continue
		}
		if first, ok := ended[o.Run]; ok && o.Status != first.Status && first.To.Before(o.From) {
			out.add("run %s was %s for %s and later %s for %s", o.Run, first.Status, first.Life, o.Status, o.Life)
		} else if !ok && o.Status != "running" {
			ended[o.Run] = o
		}
	}
	for _, e := range h.Heard {
		status, code := "", ""
		switch d := e.Event.Data.(type) {
		case event.RunFinished:
			status = d.Status
		case event.RunError:
			status, code = "failed", d.Code
		default:
			continue
		}
		if r := final[e.Run]; r.Status != status || r.Code != code {
			out.add("run %s: observer %d heard of the end %s %s, and %s %s is stored", e.Run, e.Observer, status, code, r.Status, r.Code)
		}
	}
	return f
}

// slack is for a busy machine.
const slack = time.Second

func checkCancels(h *History) (f []string) {
	out := (*found)(&f)
	lines := map[uuid.UUID][]Line{}
	for _, l := range h.Lines {
		lines[l.Run] = append(lines[l.Run], l)
	}
	for _, o := range h.Ops {
		if o.Name != "cancel" || o.Code != 204 {
			continue
		}
		for _, l := range lines[o.Run] {
			bound := o.To.Add(h.Heartbeat + slack)
			for _, t := range h.troubled(l.Life, o.From.Add(-h.Lease), l.Before) {
				// It hears of the cancel, or that the run is no longer its own, when it can again.
				later := t.To
				if later.Before(o.To) {
					later = o.To
				}
				if later = later.Add(h.Lease + slack); later.After(bound) {
					bound = later
				}
			}
			if l.After.After(bound) {
				out.add("run %s: the cancel was acknowledged at %s, and %s executed %s at %s", o.Run, clock(o.To), l.Life, l.Name, clock(l.Before))
			}
		}
	}
	return f
}

func checkSessions(h *History) (f []string) {
	out := (*found)(&f)
	active := map[uuid.UUID]uuid.UUID{}
	for _, r := range h.Rows {
		switch now := active[r.Session]; {
		case r.Active() && now != uuid.Nil && now != r.Run:
			out.add("session %s: %s became active by %s while %s was", r.Session, r.Run, r.Writer, now)
		case r.Active():
			active[r.Session] = r.Run
		case now == r.Run:
			delete(active, r.Session)
		}
	}
	return f
}

func checkTail(h *History) (f []string) {
	out := (*found)(&f)
	attached, cancelled := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	tail := map[int]int{}
	for _, o := range h.Ops {
		attached[o.Run] = attached[o.Run] || o.Attached
		cancelled[o.Run] = cancelled[o.Run] || o.Name == "cancel"
		if o.Name == "tail" {
			if tail[o.Replica] += 0; o.Code == 200 && o.Status == "completed" {
				tail[o.Replica]++
			}
		}
	}
	if len(tail) == 0 {
		out.add("no replica was tried when all was healed")
	}
	for replica, n := range tail {
		if n == 0 {
			out.add("replica %d serves nothing when all is healed", replica)
		}
	}
	for run, rows := range h.rowsOf() {
		last := rows[len(rows)-1]
		var end time.Time
		for _, r := range slices.Backward(rows) {
			if r.Ended() {
				end = r.At
			}
		}
		switch {
		case !last.Ended():
			out.add("run %s has not ended: %s at %d, epoch %d, waiting %t, cancel %t, last written by %s", run, last.Status, last.Last, last.Epoch, last.Waiting, last.Cancel, last.Writer)
		case end.Sub(h.Healed) > h.Within:
			out.add("run %s ended %v after all was healed", run, end.Sub(h.Healed).Round(time.Millisecond))
		case last.Status == "cancelled" && !cancelled[run] && !attached[run]:
			out.add("run %s was cancelled, and nobody asked for that", run)
		case last.Status == "failed" && !(last.Code == "lost" && attached[run] || last.Code == "poisoned" || last.Code == "session_busy"):
			out.add("run %s failed with code %q, which is no fault of its own", run, last.Code)
		}
	}
	slices.SortFunc(f, cmp.Compare)
	return f
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
