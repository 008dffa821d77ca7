package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
)

// Report prints what happened, in numbers. Times leave out what something else got in the way of, such as
// a database that was down meanwhile; goals are named, not enforced: a busy machine must not make a failure of them.
func (h *History) Report(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer t.Flush()
	troubles := map[string]int{}
	for _, x := range h.Troubles {
		troubles[string(x.Kind)]++
	}
	fmt.Fprintf(t, "incidents\t%d\t%s\n", len(h.Troubles), counts(troubles))

	ends := map[string]int{}
	accepted := map[uuid.UUID]bool{}
	runs := h.rowsOf()
	epochs := int64(0)
	for _, rows := range runs {
		last := rows[len(rows)-1]
		ends[strings.TrimSpace(last.Status+" "+last.Code)]++
		epochs = max(epochs, last.Epoch)
	}
	for _, o := range h.Ops {
		if o.Accepted() {
			accepted[o.Run] = true
		}
	}
	fmt.Fprintf(t, "runs\t%d\t%d of them accepted as detached; %s; up to %d owners\n", len(runs), len(accepted), counts(ends), epochs)

	times := map[string]int{}
	again, most := 0, 0
	for _, l := range h.Lines {
		if times[l.call()]++; times[l.call()] > 1 {
			again++
		}
		most = max(most, times[l.call()])
	}
	fmt.Fprintf(t, "tools executed\t%d\tagain: %d, at most %d times\n", len(times), again, most)
	fmt.Fprintf(t, "events heard\t%d\tby %d observers\n", len(h.Heard), len(h.Streams))
	for _, m := range h.Measurements() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", m.Name, m.quantiles(), m.Goal)
	}
}

func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, ", ")
}

// A Measurement is how long something took, each time that it did.
type Measurement struct {
	Name, Goal string
	Times      []time.Duration
}

func (m Measurement) quantiles() string {
	if len(m.Times) == 0 {
		return "none"
	}
	slices.Sort(m.Times)
	at := func(q float64) time.Duration {
		return m.Times[int(q*float64(len(m.Times)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v (%d)", at(0.5), at(0.99), len(m.Times))
}

// Measurements are what there are goals for.
func (h *History) Measurements() []Measurement {
	kill := Measurement{Name: "takeover after SIGKILL", Goal: fmt.Sprintf("goal: below %v", h.Lease+5*time.Second)}
	release := Measurement{Name: "takeover after a release", Goal: "goal: below 1s"}
	cancel := Measurement{Name: "cancel on another replica", Goal: "goal: below 1s"}
	live := Measurement{Name: "live event on another replica", Goal: "goal: p50 below 30ms"}
	runs := h.rowsOf()
	for _, rows := range runs {
		h.takeovers(rows, &kill, &release)
	}
	for _, o := range h.Ops {
		if o.Name == "cancel" && o.Code == 204 {
			h.cancelTime(o, runs[o.Run], &cancel)
		}
	}
	h.liveTimes(runs, &live)
	return []Measurement{kill, release, cancel, live}
}

// takeovers measures from the death of an owner, and from its release of the run, to the next owner.
func (h *History) takeovers(rows []Row, kill, release *Measurement) {
	claimant := ""
	for i, r := range rows[:len(rows)-1] {
		if i == 0 || r.Epoch != rows[i-1].Epoch {
			claimant = r.Writer
		}
		next := rows[i+1]
		if next.Epoch == r.Epoch || r.Ended() {
			continue
		}
		if r.Owner == uuid.Nil {
			if h.served(r.At, next.At, r.Writer) {
				release.Times = append(release.Times, next.At.Sub(r.At))
			}
			continue
		}
		for _, t := range h.Troubles {
			if t.Kind == Kill && t.Life == claimant && r.At.Before(t.From) && t.From.Before(next.At) && h.served(t.From, next.At, t.Life) {
				kill.Times = append(kill.Times, next.At.Sub(t.From))
			}
		}
	}
}

// served reports whether the database and some other replica were well all the time.
func (h *History) served(from, to time.Time, but string) bool {
	ill := map[int]bool{replicaOf(but): true}
	replicas := map[int]bool{}
	for _, o := range h.Ops {
		replicas[o.Replica] = true
	}
	for _, t := range h.Troubles {
		if t.From.After(to) || t.To.Before(from.Add(-h.Heartbeat)) {
			continue
		}
		if t.Life == "" {
			return false
		}
		ill[replicaOf(t.Life)] = true
	}
	return len(ill) <= len(replicas)-1
}

// well reports whether nothing was wrong with these replicas and the database.
func (h *History) well(from, to time.Time, replicas ...int) bool {
	for _, t := range h.Troubles {
		if !t.From.After(to) && !t.To.Before(from.Add(-h.Heartbeat)) && (t.Life == "" || slices.Contains(replicas, replicaOf(t.Life))) {
			return false
		}
	}
	return true
}

// cancelTime measures from the request to the end of the run in the database.
func (h *History) cancelTime(o Op, rows []Row, m *Measurement) {
	owner := ""
	for i, r := range rows {
		if i == 0 || r.Epoch != rows[i-1].Epoch {
			owner = r.Writer
		}
		if r.At.Before(o.From) || !r.Ended() {
			continue
		}
		there := replicaOf(owner)
		if i > 0 && !rows[i-1].Waiting && !rows[i-1].Ended() && there != o.Replica && h.well(o.From, r.At, there, o.Replica) {
			m.Times = append(m.Times, r.At.Sub(o.From))
		}
		return
	}
}

// liveTimes measures from when an event was said to when somebody heard it by another replica.
func (h *History) liveTimes(runs map[uuid.UUID][]Row, m *Measurement) {
	type epoch struct {
		run uuid.UUID
		n   int64
	}
	owners := map[epoch]string{}
	for run, rows := range runs {
		for _, r := range rows {
			if _, ok := owners[epoch{run, r.Epoch}]; !ok {
				owners[epoch{run, r.Epoch}] = r.Writer
			}
		}
	}
	for _, e := range h.Heard {
		owner := replicaOf(owners[epoch{e.Run, epochOf(e.Event)}])
		if _, ok := e.Event.Data.(event.TextMessageContent); !ok && e.Event.Data.Kind() != event.KindReasoningMessageContent {
			continue // the others may have waited for a commit
		}
		if owner >= 0 && owner != e.Replica && e.Opened.Before(e.Event.Time) && h.well(e.Event.Time, e.At, owner, e.Replica) {
			m.Times = append(m.Times, e.At.Sub(e.Event.Time))
		}
	}
}
