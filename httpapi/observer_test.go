package httpapi_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/httpapitest"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

// inUse is how much memory the process needs for what it holds.
func inUse() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Not parallel: it measures the memory of the process.
func TestAnIdleObserverNeedsLessThan30KiB(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	const n, limit = 2000, 30 << 10
	b := newBundle(t, func(s *setup) { s.unchecked = true })
	// A large snapshot must not stay in the buffers of those who have been sent it.
	run := b.detached(says("hold a b", object{"context": object{"large": strings.Repeat("x", 100<<10)}}))
	request := "GET /v1/runs/" + run.Run.String() + "/events HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 0\r\n\r\n"
	b.get("/health")
	before := inUse()
	conns := make([]net.Conn, n)
	for i := range conns {
		var err error
		conns[i], err = net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { conns[i].Close() })
		_, err = io.WriteString(conns[i], request)
		require.NoError(t, err)
	}
	buf := make([]byte, 64<<10)
	for _, c := range conns {
		for text := ""; !strings.Contains(text, `"delta":"a"}`); {
			k, err := c.Read(buf)
			require.NoError(t, err)
			text += string(buf[:k])
		}
	}
	each := (inUse() - before) / n
	t.Logf("%d observers need %d bytes each, their clients' ends of the connections included", n, each)
	assert.Less(t, each, uint64(limit))

	b.gate <- struct{}{}
	for _, c := range conns {
		for text := ""; !strings.Contains(text, `"status":"completed"`); {
			k, err := c.Read(buf)
			require.NoError(t, err, "everybody hears the end")
			text += string(buf[:k])
		}
		c.Close()
	}
	require.Eventually(t, func() bool { return goroutinesIn("httpapi") == 0 }, 10*time.Second, time.Millisecond)
}

// discard is a client that takes everything.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header                { return d.header }
func (d *discard) WriteHeader(int)                    {}
func (d *discard) Write(p []byte) (int, error)        { return len(p), nil }
func (d *discard) FlushError() error                  { return nil }
func (d *discard) SetWriteDeadline(t time.Time) error { return nil }

// Not parallel: it counts the allocations of the process.
func TestATextDeltaIsSentWithoutAllocations(t *testing.T) {
	const deltas = 5000
	bus := event.NewMemory(&event.MemoryOptions{Bytes: 64 << 20, KeepBytes: 64 << 20})
	agent, err := react.New(react.Config{Name: "tester", Model: model{}, Store: memory.New(nil), Bus: bus})
	require.NoError(t, err)
	run, err := agent.Start(t.Context(), react.Ask(uuid.New(), strings.Repeat("word ", deltas)))
	require.NoError(t, err)
	_, err = run.Wait(t.Context())
	require.NoError(t, err)
	h := httpapi.New(agent, nil)
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/runs/"+run.ID().String()+"/events", nil)
	r.Header.Set("Last-Event-ID", "0")
	allocs := testing.AllocsPerRun(5, func() { h.ServeHTTP(&discard{http.Header{}}, r) })
	assert.Less(t, allocs, float64(deltas)/10, "those of the stream, none for each delta")
}

// An observer that does not read while a run says more than the sockets between them hold: the run does not
// wait, and the observer gets what is kept, or a snapshot for what is not, and the end.
func TestAnObserverThatLagsFarBehindIsToldWhatItMissed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run := b.detached(says("hold a " + strings.Repeat("word ", 100_000)))
	res, err := b.open(t.Context(), "GET", "/v1/runs/"+run.Run.String()+"/events", nil, "Last-Event-ID: 0")
	require.NoError(t, err)
	defer res.Body.Close()
	b.gate <- struct{}{}
	require.Equal(t, "completed", b.status(run.Run), "it has ended before anybody reads")
	snapshots, last, text := 0, int64(0), 0
	for e, err := range httpapitest.Events(res.Body) {
		require.NoError(t, err)
		switch e.Data.Kind() {
		case "state_snapshot":
			snapshots++
		case "text_message_content":
			require.Greater(t, e.Seq, last)
			text++
		}
		last = e.Seq
	}
	assert.Greater(t, text, 100)
	if text < 100_000 {
		assert.Greater(t, snapshots, 1, "what is missing is told by a snapshot")
	}
	assert.Equal(t, "completed", b.status(run.Run))
	t.Logf("%d deltas, %d snapshots", text, snapshots)
}
