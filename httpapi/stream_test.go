package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

func TestAStreamIsFramedLineByLine(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	session, run := uuid.New(), uuid.New()
	res, err := b.open(t.Context(), "POST", "/v1/runs", says("hi <b>\u2028", object{"session_id": session, "run_id": run}))
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	assert.Equal(t, "no-cache", res.Header.Get("Cache-Control"))
	got := regexp.MustCompile(`"timestamp":\d+(\.\d+)?`).ReplaceAllString(string(text), `"timestamp":0`)
	got = regexp.MustCompile(`(?m)^(data: .*"messages":).*$`).ReplaceAllString(got, "$1…")
	message := regexp.MustCompile(`"message_id":"([^"]+)"`).FindStringSubmatch(got)[1]
	assert.Equal(t, strings.NewReplacer("SESSION", session.String(), "RUN", run.String(), "MESSAGE", message).Replace(`event: run_started
data: {"kind":"run_started","timestamp":0,"session_id":"SESSION","run_id":"RUN"}
id: 1

event: state_snapshot
data: {"kind":"state_snapshot","timestamp":0,"state":{}}
id: 2

event: text_message_start
data: {"kind":"text_message_start","timestamp":0,"message_id":"MESSAGE"}
id: 3

event: text_message_content
data: {"kind":"text_message_content","timestamp":0,"message_id":"MESSAGE","delta":"hi"}
id: 4

event: text_message_content
data: {"kind":"text_message_content","timestamp":0,"message_id":"MESSAGE","delta":" <b>\u2028"}
id: 5

event: text_message_end
data: {"kind":"text_message_end","timestamp":0,"message_id":"MESSAGE"}
id: 6

event: messages_snapshot
data: {"kind":"messages_snapshot","timestamp":0,"messages":…
id: 7

event: run_finished
data: {"kind":"run_finished","timestamp":0,"session_id":"SESSION","run_id":"RUN","status":"completed","interrupt_payload":null,"result":{}}
id: 8

`), got)
}

// wire is the connection of a client in a bubble: what it takes and when it takes nothing.
type wire struct {
	mu       sync.Mutex // guards what follows
	header   http.Header
	status   int
	text     bytes.Buffer
	flushed  int // of text
	deadline time.Time
	stuck    bool
	noFlush  bool
	// written is called after each write.
	written func(text string)
}

func (w *wire) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *wire) WriteHeader(status int) { w.status = status }

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.stuck {
		wait := time.Until(w.deadline)
		w.mu.Unlock()
		<-time.After(wait) // as a write to a full socket does
		return 0, errors.New("i/o timeout")
	}
	w.text.Write(p)
	written := w.written
	w.mu.Unlock()
	if written != nil {
		written(string(p))
	}
	return len(p), nil
}

func (w *wire) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noFlush {
		return http.ErrNotSupported
	}
	w.flushed = w.text.Len()
	return nil
}

func (w *wire) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return nil
}

func (w *wire) got() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()[:w.flushed]
}

func (w *wire) takesNothing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stuck = true
}

// inBubble serves in a bubble, where time is the test's.
func inBubble(t *testing.T, o *httpapi.Options, test func(b *bundle, h http.Handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bundle{T: t, log: &logged{}, gate: make(chan struct{})}
		logger := slog.New(slog.NewTextHandler(b.log, nil))
		bus := event.NewMemory(&event.MemoryOptions{Keep: time.Minute})
		var err error
		b.agent, err = react.New(react.Config{
			Name: "tester", Model: model{b.gate}, Store: memory.New(nil), Tools: b.tools(), Logger: logger, Bus: bus,
		})
		require.NoError(t, err)
		if o == nil {
			o = &httpapi.Options{}
		}
		o.Logger = logger
		t.Cleanup(func() {
			_ = b.agent.Shutdown(t.Context()) // whose context has ended
			_ = bus.Close()
			time.Sleep(time.Hour)
		})
		test(b, httpapi.New(b.agent, o))
	})
}

// connect sends a request and returns what the client gets, a func that takes the client away,
// and a channel that is closed when the handler returned.
func connect(t *testing.T, h http.Handler, w *wire, method, path, body string, headers ...string) (leave func(), done <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		h.ServeHTTP(w, r)
	}()
	synctest.Wait()
	return cancel, returned
}

func TestASilentStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bundle, h http.Handler) {
		w := &wire{}
		_, done := connect(b.T, h, w, "POST", "/v1/runs", mustJSON(b, says("hold a b")))
		before := w.got()
		assert.True(b, strings.HasSuffix(before, "\"delta\":\"a\"}\nid: 4\n\n"), before)
		time.Sleep(15*time.Second - 1)
		assert.Equal(b, before, w.got())
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		assert.Equal(b, before+": keep-alive\n\n", w.got())
		time.Sleep(30 * time.Second)
		synctest.Wait()
		assert.Equal(b, before+strings.Repeat(": keep-alive\n\n", 3), w.got())
		time.Sleep(10 * time.Second)
		b.gate <- struct{}{}
		<-done
		got := w.got()
		assert.Contains(b, got, "run_finished")
		assert.Equal(b, 3, strings.Count(got, "keep-alive"))
		time.Sleep(time.Minute)
		assert.Equal(b, got, w.got(), "nothing is written when the handler has returned")
		assert.True(b, w.deadline.IsZero(), "the server goes on with the connection")
	})
}

func TestTrafficPutsOffTheNextComment(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bundle, h http.Handler) {
		w := &wire{}
		connect(b.T, h, w, "POST", "/v1/runs", mustJSON(b, says("hold a\nhold b\nhold c\nhold d")))
		for range 3 {
			time.Sleep(14 * time.Second)
			b.gate <- struct{}{}
			synctest.Wait()
		}
		assert.NotContains(b, w.got(), "keep-alive")
		time.Sleep(15 * time.Second)
		synctest.Wait()
		assert.Contains(b, w.got(), "keep-alive")
	})
}

func TestTheKeepAliveCanBeSet(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]int{time.Second: 60, -1: 0} {
		inBubble(t, &httpapi.Options{KeepAlive: interval}, func(b *bundle, h http.Handler) {
			w := &wire{}
			connect(b.T, h, w, "POST", "/v1/runs", mustJSON(b, says("hold a b")))
			time.Sleep(time.Minute + 1)
			synctest.Wait()
			assert.Equal(b, want, strings.Count(w.got(), "keep-alive"))
		})
	}
}

func TestAClientThatTakesNothingIsGoneInTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text   string
		status checkpoint.Status
		rouse  func(b *bundle)
	}{
		"when there is something to say": {"hold a b\nhold c", checkpoint.Cancelled, func(b *bundle) { b.gate <- struct{}{} }},
		"when there is nothing to say":   {"hold a b", checkpoint.Cancelled, func(*bundle) { time.Sleep(15 * time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bundle, h http.Handler) {
				w, run := &wire{}, uuid.New()
				_, done := connect(b.T, h, w, "POST", "/v1/runs", mustJSON(b, says(c.text, object{"run_id": run})))
				w.takesNothing()
				at := time.Now()
				c.rouse(b)
				at = at.Add(time.Since(at))
				<-done
				assert.Equal(b, 30*time.Second, time.Since(at), "it had as long as it may have")
				kept, err := b.agent.RunRecord(b.Context(), "", run)
				require.NoError(b, err)
				assert.Equal(b, c.status, kept.Status)
				assert.NotContains(b, b.log.String(), "level=ERROR", "and nobody is woken for it")
			})
		})
	}
}

func TestAStuckObserverDoesNotHoldUpTheRun(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bundle, h http.Handler) {
		run, err := b.agent.Start(b.Context(), react.Ask(uuid.New(), "hold a b c d e f"))
		require.NoError(b, err)
		synctest.Wait()
		w := &wire{}
		_, done := connect(b.T, h, w, "GET", "/v1/runs/"+run.ID().String()+"/events", "")
		w.takesNothing()
		b.gate <- struct{}{}
		_, err = run.Wait(b.Context())
		require.NoError(b, err, "it has ended while the observer is stuck")
		select {
		case <-done:
			b.Fatal("the observer is not stuck")
		default:
		}
		<-done
	})
}

func TestASlowClientGetsEverything(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bundle, h http.Handler) {
		w := &wire{}
		w.written = func(text string) {
			if !strings.HasPrefix(text, ":") {
				time.Sleep(20 * time.Second) // longer than the run takes, for each event
			}
		}
		_, done := connect(b.T, h, w, "POST", "/v1/runs", mustJSON(b, says("a b c d")))
		<-done
		assert.Equal(b, 10, strings.Count(w.got(), "event: "))
		assert.Contains(b, w.got(), "completed")
	})
}

func TestAWriterThatCannotFlushStillGetsTheStream(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	h := httpapi.New(b.agent, nil)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/runs", strings.NewReader(mustJSON(t, says("hi"))))
	r.Header.Set("Content-Type", "application/json")
	w := &wire{noFlush: true}
	h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	assert.Contains(t, w.text.String(), "run_finished")
}

func TestAStreamThatEndsBeforeTheRunSaysSo(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bundle, h http.Handler) {
		session, run := uuid.New(), uuid.New()
		w, observer := &wire{}, &wire{}
		_, done := connect(b.T, h, w, "POST", "/v1/runs", mustJSON(b, says("hold a b", object{"session_id": session, "run_id": run})))
		_, observed := connect(b.T, h, observer, "GET", "/v1/runs/"+run.String()+"/events", "")
		ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
		defer cancel()
		assert.ErrorIs(b, b.agent.Shutdown(ctx), context.DeadlineExceeded)
		<-done
		<-observed
		const last = "event: error\ndata: {\"code\":503000,\"message\":\"the server is shutting down: come back to where it runs next\"}\n\n"
		assert.True(b, strings.HasSuffix(w.got(), last), w.got())
		assert.True(b, strings.HasSuffix(observer.got(), last))
		kept, err := b.agent.RunRecord(b.Context(), "", run)
		require.NoError(b, err)
		assert.Equal(b, checkpoint.Running, kept.Status, "it goes on elsewhere")
		assert.False(b, kept.Attached, "as a detached one")

		late := &wire{}
		_, done = connect(b.T, h, late, "POST", "/v1/runs", mustJSON(b, says("hi")))
		<-done
		assert.Equal(b, http.StatusServiceUnavailable, late.status)
	})
}

// panicking is a bus whose observers panic.
type panicking struct{ event.Bus }

func (p panicking) Subscribe(context.Context, string, uuid.UUID, int64) iter.Seq2[event.Event, error] {
	return func(func(event.Event, error) bool) { panic("a secret of the bus") }
}

func TestAPanicEndsAStreamAsAnErrorDoes(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(s *setup) { s.Bus = panicking{event.NewMemory(nil)} })
	res, err := b.open(t.Context(), "POST", "/v1/runs", says("hi"))
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err, "the connection is not torn down")
	assert.Equal(t, "event: error\ndata: {\"code\":500000,\"message\":\"unexpected error\"}\n\n", string(text))
	assert.Contains(t, b.log.String(), "a secret of the bus")
	assert.Contains(t, b.log.String(), "stream_test.go", "with its stack")
}

func TestARunThatWaitsForItsSessionHasAStreamAlready(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bundle, h http.Handler) {
		session := uuid.New()
		_, err := b.agent.Start(b.Context(), react.Ask(session, "hold a b"))
		require.NoError(b, err)
		w := &wire{}
		_, done := connect(b.T, h, w, "POST", "/v1/runs", mustJSON(b, says("hi", object{"session_id": session, "on_busy": "wait"})))
		assert.Equal(b, http.StatusOK, w.status)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		assert.Equal(b, 1, strings.Count(w.got(), "event: "), "it has been recorded")
		assert.True(b, strings.HasSuffix(w.got(), ": keep-alive\n\n"))
		b.gate <- struct{}{}
		<-done
		assert.Contains(b, w.got(), "completed")
	})
	inBubble(t, nil, func(b *bundle, h http.Handler) {
		session := uuid.New()
		_, err := b.agent.Start(b.Context(), react.Ask(session, "hold a b"))
		require.NoError(b, err)
		w := &wire{}
		_, done := connect(b.T, h, w, "POST", "/v1/runs", mustJSON(b, says("hi", object{"session_id": session, "on_busy": "wait"})))
		<-done
		assert.Contains(b, w.got(), `"code":"session_busy"`, "after five minutes")
	})
}
