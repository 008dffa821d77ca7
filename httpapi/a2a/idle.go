package a2a

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// idleBody is a body that breaks off when nothing comes for too long.
type idleBody struct {
	io.ReadCloser
	timer *time.Timer
	limit time.Duration

	mu   sync.Mutex // guards dead
	dead bool
}

func newIdleBody(body io.ReadCloser, limit time.Duration) *idleBody {
	b := &idleBody{ReadCloser: body, limit: limit}
	b.timer = time.AfterFunc(limit, func() {
		b.mu.Lock()
		b.dead = true
		b.mu.Unlock()
		_ = body.Close() // which ends the read that waits
	})
	return b
}

// Read implements io.Reader.
func (b *idleBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.timer.Reset(b.limit)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead && err != nil {
		err = errIdle
	}
	return n, err
}

// Close implements io.Closer.
func (b *idleBody) Close() error {
	b.timer.Stop()
	return b.ReadCloser.Close()
}

var errIdle = errors.New("the stream was silent for too long")

// isCut reports whether an error is one of a connection that broke off.
func isCut(err error) bool {
	var broken net.Error
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, errIdle) || errors.As(err, &broken)
}
