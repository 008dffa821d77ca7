package httpapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/wire"
)

// stream answers with events as server-sent events (contract 5.3), until there are no more or
// the client is gone.
func (h *handler) stream(w http.ResponseWriter, r *http.Request, events iter.Seq2[event.Event, error], gone context.CancelFunc) {
	s := &stream{w: w, control: http.NewResponseController(w), timeout: h.opts.WriteTimeout, keepAlive: h.opts.KeepAlive, gone: gone}
	s.open()
	defer s.close()
	if r.Method == http.MethodHead {
		return
	}
	defer func() {
		// An open stream is never torn down: some clients take that for more than their end.
		if v := recover(); v != nil {
			s.fail(h.explain(r.Context(), fmt.Errorf("httpapi: panic: %v\n%s", v, debug.Stack())))
		}
	}()
	for e, err := range events {
		if err == nil {
			err = s.send(e)
		}
		if r.Context().Err() != nil {
			return
		}
		if err != nil {
			s.fail(h.explain(r.Context(), err))
			return
		}
	}
}

// A stream writes server-sent events to one client. Between them a timer keeps it alive: that
// costs an idle stream no goroutine.
type stream struct {
	control            *http.ResponseController
	timeout, keepAlive time.Duration
	gone               context.CancelFunc // called when a write fails

	mu    sync.Mutex // guards what follows
	w     http.ResponseWriter
	buf   []byte
	last  time.Time // of the last write
	timer *time.Timer
	over  bool // the client is gone, or the handler returns
}

// keptBuffer is the size up to which a stream keeps its buffer for the next event: a snapshot
// must not cost an idle stream its size for ever.
const keptBuffer = 4 << 10

func (s *stream) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	header := s.w.Header()
	header.Set("Content-Type", eventStream)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no") // proxies: pass it on as it comes
	s.w.WriteHeader(http.StatusOK)
	s.flush()
	if s.keepAlive > 0 {
		s.timer = time.AfterFunc(math.MaxInt64, s.comment)
		s.timer.Reset(s.keepAlive) // after which s.timer can be read without the lock
	}
}

// comment keeps the stream alive.
func (s *stream) comment() {
	if !s.mu.TryLock() {
		s.timer.Reset(s.keepAlive) // it is being written to
		return
	}
	defer s.mu.Unlock()
	if s.over {
		return
	}
	rest := s.keepAlive - time.Since(s.last)
	if rest <= 0 {
		s.buf = append(s.buf[:0], ": keep-alive\n\n"...)
		s.write()
		rest = s.keepAlive
	}
	s.timer.Reset(rest)
}

// send sends an event. An error says that it cannot be printed; that the client is gone, the
// context of the request says.
func (s *stream) send(e event.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.buf, err = appendFrame(s.buf[:0], e); err == nil {
		s.write()
	}
	return err
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
func (s *stream) fail(e *Error) {
	text, err := wire.Marshal(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return
	}
	s.buf = append(append(append(s.buf[:0], "event: error\ndata: "...), text...), "\n\n"...)
	s.write()
}

// write sends the buffer. The caller holds mu.
func (s *stream) write() {
	if s.over {
		return
	}
	s.last = time.Now()
	if s.timeout > 0 {
		_ = s.control.SetWriteDeadline(s.last.Add(s.timeout)) // not every writer has deadlines
	}
	if _, err := s.w.Write(s.buf); err != nil {
		s.lose()
	} else {
		s.flush()
	}
	if cap(s.buf) > keptBuffer {
		s.buf = nil
	}
}

func (s *stream) flush() {
	if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.lose()
	}
}

// lose gives the client up.
func (s *stream) lose() {
	s.over = true
	s.gone()
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.timeout > 0 && !s.over {
		_ = s.control.SetWriteDeadline(time.Time{}) // the server may use the connection again
	}
	s.over = true
}
