package main

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/pgserver"
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
)

const replicaLease = 3 * time.Second

// fleet are three servers on one database, with one ledger.
type fleet struct {
	database *pgserver.Server
	servers  [3]*server
	dir      string
	ledger   string
	args     []string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{database: pgtest.Start(t, &pgserver.Options{Fsync: true}), dir: t.TempDir()}
	require.NoError(t, f.database.CreateDatabase(t.Context(), "demo"))
	address := fmt.Sprintf("postgres://postgres@/demo?host=%s&port=%d&sslmode=disable", url.QueryEscape(f.database.Socket()), f.database.Port())
	f.ledger = filepath.Join(f.dir, "ledger.txt")
	f.args = []string{"-store", address, "-ledger", "ledger.txt", "-lease", replicaLease.String()}
	for i := range f.servers {
		f.servers[i] = start(t, f.dir, f.args...)
	}
	return f
}

// finish waits for the end of a run, as a server sees it, and returns the whole time that took.
func (f *fleet) finish(t *testing.T, s *server, run string) (events []event.Event, took time.Duration) {
	t.Helper()
	began := time.Now()
	events = s.rest(s.observe(run))
	return events, time.Since(began)
}

func TestReplicasServeTheSameSessions(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b, c := f.servers[0], f.servers[1], f.servers[2]
	session := uuid.New()

	run := a.detach(script(session, `/call sleep {"ms":300}`, `/call add {"a":1,"b":2}`, `/then`, `/say Three.`))
	events, _ := f.finish(t, b, run)
	require.EqualValues(t, "completed", last[event.RunFinished](t, events).Status)
	require.NotEmpty(t, every[event.TextMessageContent](events), "live, not by a snapshot")
	for i, e := range events[1:] {
		require.Equal(t, events[i].Seq+1, e.Seq, "no number is missing, none comes twice")
	}

	// One asks, another one answers, the third one knows.
	asked := c.run(script(session, `/call ask {"question":"Which?"}`))
	require.EqualValues(t, "interrupted", last[event.RunFinished](t, asked).Status)
	answered := a.run(object{"session_id": session, "resume_payload": "this"})
	require.EqualValues(t, "completed", last[event.RunFinished](t, answered).Status)
	require.Equal(t, a.messages(session, ""), b.messages(session, ""))

	// One executes, another one cancels.
	run = a.detach(script(session, `/call sleep {"ms":3600000}`))
	observer := c.observe(run)
	until[event.ToolCallEnd](t, observer)
	began := time.Now()
	b.call(http.StatusNoContent, "PUT", run+"/cancel", nil, nil)
	require.EqualValues(t, "cancelled", last[event.RunFinished](t, c.rest(observer)).Status)
	assert.Less(t, time.Since(began), replicaLease/3, "before the next heartbeat")

	// A run that waits for its session elsewhere begins when that is idle.
	run = a.detach(script(session, `/call sleep {"ms":500}`))
	body := script(session, `/say My turn.`)
	body["on_busy"] = "wait"
	waiting := b.detach(body)
	events, _ = f.finish(t, c, waiting)
	require.EqualValues(t, "completed", last[event.RunFinished](t, events).Status)
	require.Equal(t, "completed", c.status(run))
}

func TestAnotherReplicaFinishesTheRunOfOneThatEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(t *testing.T, f *fleet)
		within time.Duration
	}{
		"killed": {func(_ *testing.T, f *fleet) { f.servers[0].stop(syscall.SIGKILL) }, replicaLease + 5*time.Second},
		"frozen": {func(t *testing.T, f *fleet) {
			require.NoError(t, f.servers[0].cmd.Process.Signal(syscall.SIGSTOP))
		}, replicaLease + 5*time.Second},
		"told to end": {func(t *testing.T, f *fleet) {
			require.NoError(t, f.servers[0].cmd.Process.Signal(syscall.SIGTERM))
		}, grace + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			a, b := f.servers[0], f.servers[1]
			session := uuid.New()
			run := a.detach(script(session,
				`/call ledger {"line":"done","ms":0}`,
				`/call ledger {"line":"open","ms":20000}`,
				`/call ledger_once {"line":"once","ms":20000}`,
				`/then`,
				`/say All is written.`,
			))
			observer := b.observe(run)
			until[event.ToolCallResult](t, observer)
			awaitLines(t, f.ledger, 3)
			began := time.Now()
			c.end(t, f)
			awaitLines(t, f.ledger, 4) // of the one who took it over
			took := time.Since(began)
			t.Logf("taken over after %v", took.Round(time.Millisecond))
			assert.Less(t, took, c.within)

			events := b.rest(observer)
			require.EqualValues(t, "completed", last[event.RunFinished](t, events).Status)
			if name == "frozen" { // it wakes up, and finds that it has lost the run
				require.NoError(t, a.cmd.Process.Signal(syscall.SIGCONT))
				later := a.run(script(uuid.New(), "/say I am here."))
				require.EqualValues(t, "completed", last[event.RunFinished](t, later).Status)
			}
			times, keys := count(lines(t, f.ledger))
			require.Equal(t, map[string]int{"done": 1, "open": 2, "once": 1}, times)
			require.Equal(t, keys["open"][0], keys["open"][1], "the same call has the same key")
			got := b.messages(session, "")
			require.Len(t, got, 6)
			require.Equal(t, "All is written.", got[5].Content)
		})
	}
}

func TestReplicasOutliveTheirDatabase(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	session := uuid.New()
	run := f.servers[0].detach(script(session,
		`/call ledger {"line":"first","ms":500}`, `/then`, `/call ledger {"line":"second","ms":500}`, `/then`, `/say Done.`))
	observer := f.servers[1].observe(run)
	until[event.ToolCallStart](t, observer)
	require.NoError(t, f.database.Restart(t.Context(), true))
	events := f.servers[1].rest(observer)
	require.EqualValues(t, "completed", last[event.RunFinished](t, events).Status)
	_, keys := count(lines(t, f.ledger))
	for _, line := range []string{"first", "second"} {
		for _, key := range keys[line] {
			require.Equal(t, keys[line][0], key)
		}
	}
	require.Len(t, f.servers[2].messages(session, ""), 6)
}
