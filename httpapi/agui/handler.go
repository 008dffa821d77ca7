package agui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/internal/body"
	"github.com/everstep-go/everstep/internal/sse"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
)

// Disconnect says what becomes of a run whose client goes away.
type Disconnect string

const (
	// Cancel ends the run. The Stop button of a frontend is just that: it closes the connection, and says
	// nothing else.
	Cancel Disconnect = "cancel"
	// Keep lets the run go on to its end, whatever dies. A frontend that asks for the same run again gets it.
	Keep Disconnect = "keep"
)

// Options tune the handler that [New] returns. Zero fields mean the default.
type Options struct {
	// Tenant says whose request it is, or refuses it; see httpapi.Options. Default:
	// httpapi.HeaderTenant(graph.DefaultTenant).
	Tenant func(*http.Request) (string, error)
	// OnDisconnect says what becomes of a run whose client goes away. Default: [Cancel].
	OnDisconnect Disconnect
	// OnBusy says what to do if the thread has an active run: refuse the request (409), let it wait, or
	// cancel the other run. Default: graph.Wait, so that a message right after a Stop is not refused.
	OnBusy graph.OnBusy
	// LegacyInterrupts is for frontends that do not know interrupt outcomes, such as CopilotKit before its
	// useInterrupt: what a run asks is a CUSTOM event on_interrupt, the answer comes in
	// forwardedProps.command.resume, and a message without an answer abandons the question.
	LegacyInterrupts bool
	// MaxBody is how many bytes a request body may have; there is the whole conversation in it. Default: 16
	// MiB. Negative: no limit.
	MaxBody int64
	// MaxSnapshot is how many bytes the messages of a snapshot may have: one that has more is not sent, for
	// clients break the connection at 10 MiB. Default: 8 MiB. Negative: no limit.
	MaxSnapshot int
	// KeepAlive is how long a stream may be silent before it carries a comment. Default: 15 s. Negative: it
	// stays silent.
	KeepAlive time.Duration
	// WriteTimeout is how long a client may refuse to take what it is sent before it counts as gone. Default:
	// 30 s. Negative: for ever.
	WriteTimeout time.Duration
	// Logger gets what clients are not told. Default: slog.Default.
	Logger *slog.Logger
}

// New returns a handler that runs an agent for AG-UI clients: each POST is a run. Its path does not matter:
// mount it where the clients look for it. It panics if an option makes no sense. It is safe for concurrent use
// and holds nothing that must be released. Shut the agent down before the server waits for its connections:
// that ends the streams.
func New(agent *react.Agent, options *Options) http.Handler {
	var o Options
	if options != nil {
		o = *options
	}
	if o.Tenant == nil {
		o.Tenant = httpapi.HeaderTenant(graph.DefaultTenant)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.OnDisconnect = cmp.Or(o.OnDisconnect, Cancel)
	o.OnBusy = cmp.Or(o.OnBusy, graph.Wait)
	switch {
	case o.OnDisconnect != Cancel && o.OnDisconnect != Keep:
		panic(fmt.Sprintf("agui: OnDisconnect is %q: it is agui.Cancel or agui.Keep", o.OnDisconnect))
	case o.OnBusy != graph.Reject && o.OnBusy != graph.Wait && o.OnBusy != graph.Cancel:
		panic(fmt.Sprintf("agui: OnBusy is %q: it is graph.Reject, graph.Wait or graph.Cancel", o.OnBusy))
	}
	o.MaxBody = cmp.Or(o.MaxBody, 16<<20)
	o.MaxSnapshot = cmp.Or(o.MaxSnapshot, 8<<20)
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	return &handler{agent: agent, opts: o}
}

type handler struct {
	agent *react.Agent
	opts  Options
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, gone := context.WithCancel(r.Context())
	defer gone()
	r = r.WithContext(ctx)
	t, events, err := h.open(w, r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	s := sse.Open(w, sse.Options{WriteTimeout: h.opts.WriteTimeout, KeepAlive: h.opts.KeepAlive, Gone: gone})
	defer s.Close()
	h.stream(ctx, s, t, events)
}

// open starts the run that is asked for, or finds it.
func (h *handler) open(w http.ResponseWriter, r *http.Request) (t *translation, events iter.Seq2[event.Event, error], err error) {
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			err = fmt.Errorf("agui: panic: %v\n%s", v, debug.Stack())
		}
	}()
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, nil, &httpapi.Error{Code: httpapi.CodeMethodNotAllowed, Message: "method not allowed; use POST"}
	}
	tenant, err := h.opts.Tenant(r)
	if _, ok := errors.AsType[*httpapi.Error](err); err != nil && !ok {
		h.opts.Logger.InfoContext(r.Context(), "agui: request refused", "err", err)
		return nil, nil, &httpapi.Error{Code: httpapi.CodeForbidden, Message: "forbidden"}
	}
	if err != nil {
		return nil, nil, err
	}
	text, err := body.Read(w, r, h.opts.MaxBody)
	if err != nil {
		return nil, nil, err
	}
	in, err := decode(text)
	if err != nil {
		return nil, nil, err
	}
	ctx := r.Context()
	q := &request{input: in, h: h, tenant: tenant}
	if err := h.identify(ctx, q); err != nil {
		return nil, nil, err
	}
	var run *graph.Run[react.State]
	for tries := 0; ; tries++ {
		if t, events, err := h.again(ctx, q); t != nil || err != nil {
			return t, events, err
		}
		if err := q.load(ctx); err != nil {
			return nil, nil, err
		}
		if run, err = q.start(ctx); err == nil {
			break
		}
		if !errors.Is(err, store.ErrExists) || tries == maxTries {
			return nil, nil, err
		}
		// The same request came twice at once, and the other one is just being recorded.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	t = newTranslation(ctx, q)
	if h.opts.OnDisconnect == Cancel {
		return t, run.Hold(ctx), nil
	}
	return t, run.Events(ctx, 0), nil
}

// maxTries is how often a request is tried again while another one for the same run is being recorded, pause how
// long it waits before.
const (
	maxTries = 1000
	pause    = 5 * time.Millisecond
)

// identify finds the id of the run that is asked for. CopilotKit answers what a run asked under the id of that run;
// the answer is a run of its own.
func (h *handler) identify(ctx context.Context, q *request) error {
	if len(q.resume) == 0 {
		return nil
	}
	for asked := q.id; ; asked = answerID(asked) {
		kept, err := h.agent.RunRecord(ctx, q.tenant, asked)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if kept.Session != q.session || kept.Status != checkpoint.Interrupted {
			return nil
		}
		then, err := h.now(ctx, q.tenant, q.session, asked)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(then.questions, q.answersTo) {
			q.id = answerID(asked)
		}
	}
}

// again finds a run that was started before: a request for it is answered by it. It returns nothing if there is
// none.
func (h *handler) again(ctx context.Context, q *request) (*translation, iter.Seq2[event.Event, error], error) {
	kept, err := h.agent.RunRecord(ctx, q.tenant, q.id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if kept.Session != q.session {
		return nil, nil, &httpapi.Error{Code: httpapi.CodeRunExists, Message: fmt.Sprintf("run %s already exists in another thread", q.run)}
	}
	run, err := h.agent.Attach(ctx, q.tenant, q.id)
	if err != nil {
		return nil, nil, err
	}
	t := newTranslation(ctx, q)
	t.again = true
	if t.ended = kept.Status.Ended(); t.ended {
		return t, run.Events(ctx, graph.Live), nil
	}
	return t, run.Events(ctx, 0), nil
}

// stream sends the events of a run until there are no more or the client is gone. An open body is never torn
// down: to some clients that is the end of their process.
func (h *handler) stream(ctx context.Context, s *sse.Stream, t *translation, events iter.Seq2[event.Event, error]) {
	defer func() {
		if v := recover(); v != nil {
			h.fail(ctx, s, t, fmt.Errorf("agui: panic: %v\n%s", v, debug.Stack()))
		}
	}()
	send := func(f func(*frames)) (err error) {
		before, sent := t.position, false
		defer func() {
			if !sent { // then it was not said, panics too
				t.position = before
			}
		}()
		err = s.Send(func(b []byte) ([]byte, error) {
			out := frames{b: b}
			f(&out)
			return out.b, out.err
		})
		sent = err == nil
		return err
	}
	if err := send(t.begin); err != nil {
		h.fail(ctx, s, t, err)
		return
	}
	for e, err := range events {
		if err == nil {
			err = send(func(f *frames) { t.add(f, e) })
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.fail(ctx, s, t, err)
			return
		}
	}
}

// fail ends a stream before its run.
func (h *handler) fail(ctx context.Context, s *sse.Stream, t *translation, err error) {
	e := h.explain(ctx, err)
	_ = s.Send(func(b []byte) ([]byte, error) {
		f := frames{b: b}
		t.now(&f, time.Now())
		t.fail(&f, e.Message, strconv.Itoa(e.Code))
		return f.b, f.err
	})
}

// refuse answers a request with an error, before any stream.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if gone := r.Context().Err(); gone != nil && errors.Is(err, gone) {
		err = &httpapi.Error{Code: httpapi.CodeBadRequest, Message: "the client went away"}
	}
	e := h.explain(r.Context(), err)
	text, err := wire.Marshal(e)
	if err != nil {
		text = []byte(`{"code":500000,"message":"unexpected error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(e.Status())
	_, _ = w.Write(text)
}

func (h *handler) explain(ctx context.Context, err error) *httpapi.Error {
	e := httpapi.ErrorOf(err)
	if e.Code == httpapi.CodeUnexpected {
		h.opts.Logger.ErrorContext(ctx, "agui: unexpected error", "err", err)
	}
	return e
}
