package httpapi

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"runtime/debug"
	"strconv"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/sse"
	"github.com/everstep-go/everstep/internal/wire"
)

// stream answers with events as server-sent events (contract 5.3), until there are no more or
// the client is gone.
func (h *handler) stream(w http.ResponseWriter, r *http.Request, events iter.Seq2[event.Event, error], gone context.CancelFunc) {
	s := sse.Open(w, sse.Options{WriteTimeout: h.opts.WriteTimeout, KeepAlive: h.opts.KeepAlive, Gone: gone})
	defer s.Close()
	if r.Method == http.MethodHead {
		return
	}
	defer func() {
		// An open stream is never torn down: some clients take that for more than their end.
		if v := recover(); v != nil {
			fail(s, h.explain(r.Context(), fmt.Errorf("httpapi: panic: %v\n%s", v, debug.Stack())))
		}
	}()
	for e, err := range events {
		if err == nil {
			err = s.Send(func(b []byte) ([]byte, error) { return appendFrame(b, e) })
		}
		if r.Context().Err() != nil {
			return
		}
		if err != nil {
			fail(s, h.explain(r.Context(), err))
			return
		}
	}
}

// appendFrame appends an event as it is sent. Its number comes last: there are clients that take an event for
// received when they have read that, and would miss one that is cut off behind it.
func appendFrame(b []byte, e event.Event) ([]byte, error) {
	b = append(append(b, "event: "...), e.Data.Kind()...)
	b, err := e.AppendJSON(append(b, "\ndata: "...))
	b = strconv.AppendInt(append(b, "\nid: "...), e.Seq, 10)
	return append(b, "\n\n"...), err
}

// fail tells the client why there will be no more events although the run has not ended.
func fail(s *sse.Stream, e *Error) {
	_ = s.Send(func(b []byte) ([]byte, error) {
		text, err := wire.Marshal(e)
		return append(append(append(b, "event: error\ndata: "...), text...), "\n\n"...), err
	})
}
