package react_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/state"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/sqlite"
)

// The work of every benchmark here is a turn with one tool call: the user asks, the model
// calls a tool, the tool answers, the model answers. That is four commits. docs/benchmarks.md
// says how to run them and what they gave.

// toolOnce calls a tool after each user message and then answers.
func toolOnce(_ context.Context, req *message.Request) (message.Reply, error) {
	if req.Messages[len(req.Messages)-1].Role() == message.RoleTool {
		return message.Reply{Text: "It is nine degrees in Oslo, take a coat.", FinishReason: message.FinishStop}, nil
	}
	// Ids that are unique in the session, as a provider's are.
	call := reacttest.ToolCall(fmt.Sprintf("call_%06d", len(req.Messages)), "weather", `{"city":"Oslo"}`)
	return message.Reply{ToolCalls: []message.ToolCall{call}, FinishReason: message.FinishToolCalls}, nil
}

func forecaster(tb testing.TB, st store.Store) *react.Agent {
	tb.Helper()
	agent, err := react.New(react.Config{
		Name: "forecaster", Model: react.ModelFunc(toolOnce), Store: st,
		Tools: []react.Tool{react.NewTool("weather", "Current weather.", func(ctx context.Context, in struct {
			City string `json:"city"`
		}) (string, error) {
			if s, ok := react.StateFrom(ctx); ok && len(s.Context) > 2 {
				value, _ := json.Marshal(len(s.Messages))
				return "9 degrees in " + in.City, react.UpdateContext(ctx, state.Add("/turn", value))
			}
			return "9 degrees in " + in.City, nil
		})},
	})
	require.NoError(tb, err)
	return agent
}

func turn(tb testing.TB, agent *react.Agent, in react.Input) {
	tb.Helper()
	run, err := agent.Start(tb.Context(), in)
	require.NoError(tb, err)
	_, err = run.Wait(tb.Context())
	require.NoError(tb, err)
}

func open(tb testing.TB, sync sqlite.Synchronous) (*sqlite.Store, string) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "speed.db")
	st, err := sqlite.Open(path, &sqlite.Options{Synchronous: sync})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = st.Close() })
	return st, path
}

// pages returns how many bytes of a database are in use.
func pages(tb testing.TB, path string) int64 {
	tb.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	require.NoError(tb, err)
	defer db.Close()
	var count, free, size int64
	require.NoError(tb, db.QueryRow("PRAGMA page_count").Scan(&count))
	require.NoError(tb, db.QueryRow("PRAGMA freelist_count").Scan(&free))
	require.NoError(tb, db.QueryRow("PRAGMA page_size").Scan(&size))
	return (count - free) * size
}

// bare measures commits of one small row by one writer, with nothing of ours around: the least
// that a durable step can cost on this disk.
func bare(tb testing.TB, mode string, n int) []time.Duration {
	tb.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(tb.TempDir(), "bare.db")+"?_journal_mode=WAL&_synchronous="+mode)
	require.NoError(tb, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec("CREATE TABLE bare (id INTEGER PRIMARY KEY, body TEXT)")
	require.NoError(tb, err)
	insert, err := db.Prepare("INSERT INTO bare (body) VALUES (?)")
	require.NoError(tb, err)
	body := strings.Repeat("x", 100)
	times := make([]time.Duration, n)
	for i := range times {
		start := time.Now()
		_, err := insert.Exec(body)
		times[i] = time.Since(start)
		require.NoError(tb, err)
	}
	return times
}

func median(times []time.Duration) time.Duration {
	times = slices.Clone(times)
	slices.Sort(times)
	return times[len(times)/2]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// One session grows to 1,000 turns.
func BenchmarkSessionOf1000Turns(b *testing.B) {
	for mode, sync := range map[string]sqlite.Synchronous{"FULL": sqlite.Full, "NORMAL": sqlite.Normal} {
		b.Run(mode, func(b *testing.B) {
			for b.Loop() {
				st, path := open(b, sync)
				agent, session := forecaster(b, st), uuid.New()
				times := make([]time.Duration, 1000)
				var bytes []int64
				floor := bare(b, mode, 300)
				for i := range times {
					if i%100 == 0 {
						bytes = append(bytes, pages(b, path))
					}
					if i == 500 {
						floor = append(floor, bare(b, mode, 300)...)
					}
					start := time.Now()
					turn(b, agent, react.Ask(session, "Do I need a coat in Oslo today, and what else?"))
					times[i] = time.Since(start)
				}
				bytes = append(bytes, pages(b, path))
				floor = append(floor, bare(b, mode, 300)...)
				early, late, commit := median(times[5:55]), median(times[950:]), median(floor)
				b.ReportMetric(micros(early), "µs/turn@10")
				b.ReportMetric(micros(late), "µs/turn@1000")
				b.ReportMetric(float64(late)/float64(early), "growth")
				b.ReportMetric(micros(commit), "µs/bare-commit")
				b.ReportMetric(float64(median(times))/float64(4*commit), "x(4-bare-commits)")
				b.ReportMetric(float64(bytes[1]-bytes[0])/100, "B/turn@10")
				b.ReportMetric(float64(bytes[10]-bytes[9])/100, "B/turn@1000")
			}
		})
	}
}

// A context of 1 MiB, of which each turn changes one key.
func BenchmarkContextOf1MiB(b *testing.B) {
	for b.Loop() {
		st, path := open(b, sqlite.Normal)
		agent, session := forecaster(b, st), uuid.New()
		turn(b, agent, big(session))
		before, start := pages(b, path), time.Now()
		for range 600 {
			turn(b, agent, react.Ask(session, "Do I need a coat?"))
		}
		b.ReportMetric(micros(time.Since(start)/600), "µs/turn")
		b.ReportMetric(float64(pages(b, path)-before)/600, "B/turn")
	}
}

// big is a first turn with a context of 1 MiB.
func big(session uuid.UUID) react.Input {
	members := map[string]string{}
	for i := range 1024 {
		members[fmt.Sprintf("key%d", i)] = strings.Repeat("x", 1010)
	}
	in := react.Ask(session, "Hello")
	in.Context, _ = json.Marshal(members)
	return in
}

// 64 sessions of 20 turns at once: the commits of all share their flushes.
func Benchmark64Sessions(b *testing.B) {
	for b.Loop() {
		st, _ := open(b, sqlite.Full)
		counted := graphtest.NewFaulty(st, 0, "")
		agent := forecaster(b, counted)
		floor := bare(b, "FULL", 300)
		start := time.Now()
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				session := uuid.New()
				for range 20 {
					turn(b, agent, react.Ask(session, "Do I need a coat?"))
				}
			})
		}
		wg.Wait()
		took := time.Since(start)
		floor = append(floor, bare(b, "FULL", 300)...)
		commits := 0
		for _, call := range counted.Calls() {
			if call == "Begin" || call == "Commit" || call == "SaveTask" {
				commits++
			}
		}
		rate, one := float64(commits)/took.Seconds(), 1/median(floor).Seconds()
		b.ReportMetric(64*20/took.Seconds(), "turns/s")
		b.ReportMetric(rate, "commits/s")
		b.ReportMetric(one, "bare-commits/s")
		b.ReportMetric(rate/one, "x(bare-writer)")
	}
}

// Loading a session of 2,000 messages: what the first run in a process costs.
func BenchmarkLoad2000Messages(b *testing.B) {
	st, _ := open(b, sqlite.Normal)
	agent, session := forecaster(b, st), uuid.New()
	for range 500 {
		turn(b, agent, react.Ask(session, "Do I need a coat in Oslo today, and what else?"))
	}
	for b.Loop() {
		s, err := agent.State(b.Context(), "", session)
		require.NoError(b, err)
		require.Len(b, s.Messages, 2000)
	}
}

// A fork from the middle of 200 turns, and a turn on it.
func BenchmarkForkAt200Turns(b *testing.B) {
	for mode, sync := range map[string]sqlite.Synchronous{"FULL": sqlite.Full, "NORMAL": sqlite.Normal} {
		b.Run(mode, func(b *testing.B) {
			st, _ := open(b, sync)
			agent, session := forecaster(b, st), uuid.New()
			var middle uuid.UUID
			for i := range 200 {
				in := react.Ask(session, "Do I need a coat in Oslo today, and what else?")
				in.Run = uuid.New()
				turn(b, agent, in)
				if i == 100 {
					page, err := agent.Checkpoints(b.Context(), store.CheckpointQuery{
						Session: session, Runs: []uuid.UUID{in.Run}, Reasons: []checkpoint.Reason{checkpoint.Finish},
					})
					require.NoError(b, err)
					middle = page.Items[0].ID
				}
			}
			for b.Loop() {
				in := react.Ask(session, "And in Bergen?")
				in.Checkpoint = middle
				turn(b, agent, in)
			}
		})
	}
}

// A turn without a store: what the library itself costs.
func BenchmarkTurnInMemory(b *testing.B) {
	agent := forecaster(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		turn(b, agent, react.Ask(uuid.Nil, "Do I need a coat?"))
	}
}

func TestATurnInMemoryTakesFewObjects(t *testing.T) {
	agent := forecaster(t, nil)
	objects := testing.AllocsPerRun(200, func() { turn(t, agent, react.Ask(uuid.Nil, "Do I need a coat?")) })
	require.Less(t, objects, 140.0) // 118 when this was written
}

// The memory that a program of 500 turns needs at most. Run it alone: the peak is the process's.
func BenchmarkPeakMemoryOf500Turns(b *testing.B) {
	for b.Loop() {
		st, _ := open(b, sqlite.Normal)
		agent, session := forecaster(b, st), uuid.New()
		for range 500 {
			turn(b, agent, react.Ask(session, "Do I need a coat in Oslo today, and what else?"))
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("the peak is read from /proc")
	}
	for line := range strings.Lines(string(status)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			b.ReportMetric(kib/1024, "MiB-peak")
		}
	}
}

func TestATurnIsKeptInAFewBytesHoweverLongTheSessionIs(t *testing.T) {
	t.Parallel()
	st, path := open(t, sqlite.Normal)
	agent, session := forecaster(t, st), uuid.New()
	ask := func(turns int) int64 {
		before := pages(t, path)
		for range turns {
			turn(t, agent, react.Ask(session, "Do I need a coat in Oslo today, and what else?"))
		}
		return (pages(t, path) - before) / int64(turns)
	}
	ask(10)
	early := ask(100)
	ask(200)
	late := ask(100)
	require.Less(t, late, int64(2500))
	require.Less(t, float64(late), 1.2*float64(early))
}

func TestALargeContextCostsWhatChangesOfIt(t *testing.T) {
	t.Parallel()
	st, path := open(t, sqlite.Normal)
	agent, session := forecaster(t, st), uuid.New()
	turn(t, agent, big(session))
	before := pages(t, path)
	for range 200 {
		turn(t, agent, react.Ask(session, "Do I need a coat?"))
	}
	require.Less(t, (pages(t, path)-before)/200, int64(8<<10))
	// A whole copy comes along after so many patches; what is loaded then is still right.
	s, err := forecaster(t, st).State(t.Context(), "", session)
	require.NoError(t, err)
	var kept map[string]any
	require.NoError(t, json.Unmarshal(s.Context, &kept))
	require.Len(t, kept, 1025)
	require.EqualValues(t, len(s.Messages)-2, kept["turn"])
}
