package httpapi_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
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

// goroutinesIn counts the goroutines that are in a package's code.
func goroutinesIn(packages ...string) (n int) {
	buf := make([]byte, 64<<20)
	for _, stack := range bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		for _, p := range packages {
			if bytes.Contains(stack, []byte("/everstep/"+p+".(")) {
				n++
				break
			}
		}
	}
	return n
}

// A client that leaves an attached run takes it along, whenever it leaves; the session is free then, and
// nothing is left running. Not parallel: it counts goroutines.
func TestAClientMayLeaveAtAnyMoment(t *testing.T) {
	until := func(kind event.Kind) func(*testing.T, io.Reader) {
		return func(t *testing.T, r io.Reader) {
			for e, err := range httpapitest.Events(r) {
				require.NoError(t, err)
				if e.Data.Kind() == kind {
					return
				}
			}
			t.Fatalf("no %s", kind)
		}
	}
	for name, c := range map[string]struct {
		text string
		read func(*testing.T, io.Reader)
	}{
		"before the first byte is read":  {"hold a b", func(*testing.T, io.Reader) {}},
		"after the first event":          {"hold a b", until("run_started")},
		"in the middle of a reply":       {"hold a b", until("text_message_content")},
		"in the middle of a tool":        {"call wait {}", until("tool_call_end")},
		"in the middle of an event":      {"hold a b", func(t *testing.T, r io.Reader) { _, err := io.ReadFull(r, make([]byte, 30)); require.NoError(t, err) }},
		"beside a tool that has ended":   {"call greet {\"name\":\"x\"}\ncall wait {}", until("tool_call_result")},
		"while it waits for its session": {"hold a b", until("run_started")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBundle(t)
			session, run := uuid.New(), uuid.New()
			busy := strings.Contains(name, "waits")
			more := object{"session_id": session, "run_id": run}
			if busy {
				b.detached(says("hold first then", object{"session_id": session}))
				more["on_busy"] = "wait"
			}
			ctx, leave := context.WithCancel(t.Context())
			res, err := b.open(ctx, "POST", "/v1/runs", says(c.text, more))
			require.NoError(t, err)
			c.read(t, res.Body)
			kept, err := b.agent.RunRecord(t.Context(), "", run)
			require.NoError(t, err)
			assert.True(t, kept.Attached, "if this process dies, the run ends with it")
			observer, err := b.open(t.Context(), "GET", "/v1/runs/"+run.String()+"/events", nil, "Last-Event-ID: 0")
			require.NoError(t, err)
			leave()
			res.Body.Close()
			events := b.events(observer)
			last, ok := events[len(events)-1].Data.(event.RunFinished)
			require.True(t, ok, "observers hear of the end")
			assert.Equal(t, "cancelled", last.Status)
			assert.Equal(t, "cancelled", b.status(run))
			if busy {
				b.gate <- struct{}{}
				return
			}
			assert.Equal(t, "again", textOf(b.attached(says("again", object{"session_id": session, "on_busy": "wait"}))))
			require.Eventually(t, func() bool { return goroutinesIn("httpapi", "react") == 0 }, 10*time.Second, time.Millisecond,
				"goroutines end with their requests")
		})
	}
}

// A connection that breaks right after the request, at every length of the request.
func TestARequestMayBreakAnywhere(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	body := mustJSON(t, says("hi"))
	request := "POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	for n := range len(request) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.NoError(t, err)
		_, err = io.WriteString(conn, request[:n])
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).SetLinger(0)) // a reset, as by a crash
		require.NoError(t, conn.Close())
	}
	assert.Zero(t, b.list("/v1/sessions").Count, "what did not arrive whole is not there")
	assert.NotContains(t, b.log.String(), "level=ERROR")

	// One that arrived whole may run or be cancelled, but it ends.
	for range 50 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.NoError(t, err)
		_, err = io.WriteString(conn, request)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool {
		for _, s := range b.list("/v1/sessions").ids() {
			for _, r := range b.list("/v1/sessions/" + s + "/runs").Items {
				if r["status"] == "running" {
					return false
				}
			}
		}
		return true
	}, 10*time.Second, 10*time.Millisecond)
	assert.NotContains(t, b.log.String(), "level=ERROR")
}

func TestNobodyIsWokenForAClientThatDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		st := &broken{Store: memory.New(nil), asked: make(chan struct{})}
		agent, err := react.New(react.Config{Name: "tester", Model: model{}, Store: st})
		require.NoError(t, err)
		h := httpapi.New(agent, &httpapi.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		leave, done := connect(t, h, &wire{}, "GET", "/v1/sessions", "")
		<-st.asked
		leave()
		<-done
		assert.Empty(t, log.String())
	})
}

func TestAnObserverMayLeaveAndComeBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run := b.detached(says("hold a b c d e f g"))
	b.gate <- struct{}{}
	var got []event.Event
	last := "0"
	for range 100 {
		ctx, leave := context.WithCancel(t.Context())
		res, err := b.open(ctx, "GET", "/v1/runs/"+run.Run.String()+"/events", nil, "Last-Event-ID: "+last)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		for e, err := range httpapitest.Events(res.Body) {
			require.NoError(t, err)
			got = append(got, e)
			last = strconv.Itoa(int(e.Seq))
			break // one event a connection
		}
		leave()
		res.Body.Close()
		if len(got) > 0 && event.Terminal(got[len(got)-1].Data) {
			break
		}
	}
	for i, e := range got {
		require.EqualValues(t, i+1, e.Seq, "none is missed, none comes twice")
	}
	assert.Equal(t, "completed", b.status(run.Run), "and the run did not notice")
}

func TestStreamsWorkOverHTTP2Too(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	server := httptest.NewUnstartedServer(httpapi.New(b.agent, nil))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	post := func(ctx context.Context, body object) *http.Response {
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/runs", strings.NewReader(mustJSON(t, body)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := server.Client().Do(req)
		require.NoError(t, err)
		require.Equal(t, 2, res.ProtoMajor)
		return res
	}
	assert.Equal(t, join(begins, text, ends), kinds(b.events(post(t.Context(), says("hi")))))

	run := uuid.New()
	ctx, leave := context.WithCancel(t.Context())
	res := post(ctx, says("hold a b", object{"run_id": run}))
	for e, err := range httpapitest.Events(res.Body) {
		require.NoError(t, err)
		if e.Data.Kind() == "text_message_content" {
			break // it came while the run goes on
		}
	}
	leave()
	res.Body.Close()
	assert.Equal(t, "cancelled", b.status(run))
}
