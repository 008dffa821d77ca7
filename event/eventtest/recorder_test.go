package eventtest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A recorder is a testing.TB that a case may fail without failing the test that it runs in.
type recorder struct {
	testing.TB // for its context and its directories

	mu     sync.Mutex // guards the rest
	failed bool
	text   strings.Builder
}

func (r *recorder) Helper() {}

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.text, format+"\n", args...)
}

func (r *recorder) Log(args ...any) { r.Logf("%s", fmt.Sprintln(args...)) }

func (r *recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.Fail()
}

func (r *recorder) Error(args ...any) {
	r.Log(args...)
	r.Fail()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Logf(format, args...)
	r.FailNow()
}

func (r *recorder) Fatal(args ...any) {
	r.Log(args...)
	r.FailNow()
}

// record runs a case and returns whether it failed, and with what. A case that panics, instead of
// saying what is wrong, fails the test.
func record(t *testing.T, c scenario, h Harness) (failed bool, text string) {
	t.Helper()
	r := &recorder{TB: t}
	var panicked any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		c.play(r, h)
	}()
	<-done
	if panicked != nil {
		t.Errorf("%s panicked: %v", c.name, panicked)
	}
	return r.Failed(), r.text.String()
}
