package react_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/sqlite"
)

// victimDir names the folder of a process that is there to be killed: this test binary, started
// again.
const victimDir = "EVERSTEP_VICTIM_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		if err := victim(dir, os.Getenv("EVERSTEP_VICTIM_FINISH") != ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// diary is a file outside of the store, written through to the disk line by line: what really
// happened, whatever the store says.
type diary struct {
	mu   sync.Mutex // guards file
	file *os.File
}

func (l *diary) write(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := fmt.Sprintf(format, args...) + lineEnd
	if _, err := l.file.WriteString(line); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(line) // so that the killer sees how far this is
}

// lineEnd tells a line that is whole from one that a kill cut off: a write to a file can end anywhere.
const lineEnd = ";\n"

const victimSessions = 3

// victim converses in a few sessions until it is killed, after it went on with what an earlier
// one left. To finish is to do only that.
func victim(dir string, finish bool) error {
	file, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_CREATE|os.O_APPEND|os.O_WRONLY|os.O_SYNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.WriteString("\n"); err != nil { // whatever the one before was killed in
		return err
	}
	l := &diary{file: file}
	st, err := sqlite.Open(filepath.Join(dir, "killed.db"), nil)
	if err != nil {
		return err
	}
	did := func(ctx context.Context, in arg) (string, error) {
		l.write("did %s %s", in.Arg, graph.IdempotencyKey(ctx))
		return "did " + in.Arg, nil
	}
	agent, err := react.New(react.Config{
		Name: "victim", Model: react.ModelFunc(obedient), Store: st, Heartbeat: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Tools: []react.Tool{
			react.NewTool("note", "Does something.", did),
			react.NewTool("once", "Does something at most once.", did, &react.ToolOptions{AtMostOnce: true}),
		},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- agent.Serve(ctx) }()
	var wg sync.WaitGroup
	errs := make([]error, victimSessions)
	for i := range victimSessions {
		wg.Go(func() { errs[i] = converse(ctx, agent, l, i, finish) })
	}
	wg.Wait()
	stop()
	for _, err := range append(errs, <-served, agent.Shutdown(context.Background()), st.Close()) {
		if err != nil {
			return err
		}
	}
	return nil
}

func victimSession(i int) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "session %d", i))
}

// converse goes on with a session: turn after turn of four tools at once.
func converse(ctx context.Context, agent *react.Agent, l *diary, i int, finish bool) error {
	session := victimSession(i)
	for n := 0; ; n++ {
		id := uuid.NewSHA1(session, fmt.Appendf(nil, "run %d", n))
		run, err := agent.Attach(ctx, "", id)
		if err != nil {
			if finish {
				return nil
			}
			name := fmt.Sprintf("%d.%d", i, n)
			in := react.Ask(session, fmt.Sprintf("note:%sa note:%sb once:%sc note:%sd", name, name, name, name))
			in.Run = id
			if run, err = agent.Start(ctx, in); err != nil {
				return err
			}
			l.write("accepted %s", id)
		}
		for e, err := range run.Events(ctx, 0) {
			if err != nil {
				return err
			}
			if d, ok := e.Data.(event.ToolCallResult); ok {
				l.write("heard %s", d.ToolCallID)
			}
		}
		if _, err := run.Wait(ctx); err != nil {
			return err
		}
	}
}

func TestNothingIsLostOrDoneTwiceByAProcessThatIsKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	kills := 50
	if testing.Short() {
		kills = 5
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	for range kills {
		cmd := startVictim(t, dir, false)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for left := 1 + random.IntN(40); left > 0 && lines.Scan(); left-- {
		}
		require.NoError(t, cmd.Process.Kill())
		_, _ = io.Copy(io.Discard, out)
		require.ErrorContains(t, cmd.Wait(), "killed", "it was to be killed, not to end")
	}
	out, err := startVictim(t, dir, true).CombinedOutput()
	require.NoError(t, err, "%s", out)
	checkLedger(t, dir)
}

func startVictim(t *testing.T, dir string, finish bool) *exec.Cmd {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	if finish {
		cmd.Env = append(cmd.Env, "EVERSTEP_VICTIM_FINISH=1")
	}
	return cmd
}

// checkLedger compares what happened with what is stored.
func checkLedger(t *testing.T, dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "ledger"))
	require.NoError(t, err)
	times, keys, heard := map[string]int{}, map[string]string{}, map[string]bool{}
	accepted := 0
	st, err := sqlite.Open(filepath.Join(dir, "killed.db"), nil)
	require.NoError(t, err)
	defer st.Close()
	for line := range strings.Lines(string(text)) {
		line, whole := strings.CutSuffix(line, lineEnd)
		if !whole {
			continue // of a process that was killed while it wrote
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "accepted":
			accepted++
			run, err := st.Run(t.Context(), graph.DefaultTenant, uuid.MustParse(rest))
			require.NoError(t, err, "a run that was accepted exists")
			assert.Equal(t, checkpoint.Completed, run.Status, "and is finished")
		case "heard":
			heard[toolOf(rest)] = true
		case "did":
			name, key, _ := strings.Cut(rest, " ")
			assert.False(t, heard[name], "%s was done again after its result had been heard", name)
			if times[name]++; times[name] > 1 {
				assert.Equal(t, keys[name], key, "%s was done again under another idempotency key", name)
				assert.False(t, strings.HasSuffix(name, "c"), "%s was to be done at most once", name)
			}
			keys[name] = key
		}
	}
	require.NotZero(t, accepted)
	again := 0
	for _, n := range times {
		again += n - 1
	}
	t.Logf("%d runs accepted, %d tools done, %d of them again", accepted, len(times), again)
	checkConversations(t, st, times)
}

// checkConversations wants every session to hold every turn, with every result.
func checkConversations(t *testing.T, st store.Store, times map[string]int) {
	agent, err := react.New(react.Config{Name: "victim", Model: react.ModelFunc(obedient), Store: st})
	require.NoError(t, err)
	for i := range victimSessions {
		s, err := agent.State(t.Context(), "", victimSession(i))
		require.NoError(t, err)
		require.Zero(t, len(s.Messages)%7, "a turn is a user message, a reply, four results and an answer")
		for n := 0; n < len(s.Messages); n += 7 {
			for _, m := range s.Messages[n+2 : n+6] {
				result := m.(*message.Tool)
				name := toolOf(result.ToolCallID)
				if result.Error != "" {
					assert.True(t, strings.HasSuffix(name, "c"), "%s: %s", name, result.Error)
					continue
				}
				assert.Equal(t, "did "+name, *result.Content)
				assert.Positive(t, times[name], "%s has a result and was never done", name)
			}
		}
	}
}

// toolOf returns the argument of the call of an id that obedient gave: "ORDER/POSITION".
func toolOf(callID string) string {
	order, position, _ := strings.Cut(callID, "/")
	var i int
	_, _ = fmt.Sscan(position, &i)
	_, name, _ := strings.Cut(strings.Fields(order)[i], ":")
	return name
}
