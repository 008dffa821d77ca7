package sse

import (
	"errors"
	"math"
	"net/http"
	"sync"
	"time"
)

// MediaType is what a stream is.
const MediaType = "text/event-stream"

// Options are those of a [Stream].
type Options struct {
	// WriteTimeout is how long the client may refuse to take what it is sent before it counts as gone. Not
	// positive: for ever.
	WriteTimeout time.Duration
	// KeepAlive is how long the stream may be silent before it carries a comment. Not positive: it stays silent.
	KeepAlive time.Duration
	// Gone is called when a write fails.
	Gone func()
}

// A Stream writes server-sent events to one client. Between them a timer keeps it alive: that
// costs an idle stream no goroutine. It is safe for concurrent use.
type Stream struct {
	control *http.ResponseController
	opts    Options

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

// Open answers 200 and returns the stream, to be closed before the handler returns.
func Open(w http.ResponseWriter, opts Options) *Stream {
	s := &Stream{w: w, control: http.NewResponseController(w), opts: opts}
	s.mu.Lock()
	defer s.mu.Unlock()
	header := s.w.Header()
	header.Set("Content-Type", MediaType)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no") // proxies: pass it on as it comes
	s.w.WriteHeader(http.StatusOK)
	s.flush()
	if s.opts.KeepAlive > 0 {
		s.timer = time.AfterFunc(math.MaxInt64, s.comment)
		s.timer.Reset(s.opts.KeepAlive) // after which s.timer can be read without the lock
	}
	return s
}

// comment keeps the stream alive.
func (s *Stream) comment() {
	if !s.mu.TryLock() {
		s.timer.Reset(s.opts.KeepAlive) // it is being written to
		return
	}
	defer s.mu.Unlock()
	if s.over {
		return
	}
	rest := s.opts.KeepAlive - time.Since(s.last)
	if rest <= 0 {
		s.buf = append(s.buf[:0], ": keep-alive\n\n"...)
		s.write()
		rest = s.opts.KeepAlive
	}
	s.timer.Reset(rest)
}

// Send sends what appended appends to an empty buffer: whole frames. If that returns an error, nothing is
// sent; that the client is gone, Options.Gone says.
func (s *Stream) Send(appended func([]byte) ([]byte, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.buf, err = appended(s.buf[:0]); err == nil && len(s.buf) > 0 {
		s.write()
	}
	return err
}

// write sends the buffer. The caller holds mu.
func (s *Stream) write() {
	if s.over {
		return
	}
	s.last = time.Now()
	if s.opts.WriteTimeout > 0 {
		_ = s.control.SetWriteDeadline(s.last.Add(s.opts.WriteTimeout)) // not every writer has deadlines
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

func (s *Stream) flush() {
	if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.lose()
	}
}

// lose gives the client up.
func (s *Stream) lose() {
	s.over = true
	s.opts.Gone()
}

// Close ends the answer.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.opts.WriteTimeout > 0 && !s.over {
		_ = s.control.SetWriteDeadline(time.Time{}) // the server may use the connection again
	}
	s.over = true
}
