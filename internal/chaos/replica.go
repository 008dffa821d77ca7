//go:build unix

package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A replica is a server, started again and again. Each of its lives has a name of its own, under which
// the database knows it and its ledger lies.
type replica struct {
	index   int
	h       *harness
	proxy   *Proxy
	trouble sync.Mutex // held while something is wrong with it
	lives   int        // changed by whoever holds trouble

	mu  sync.Mutex // guards what follows
	now *life
}

// life is one process.
type life struct {
	name   string
	cmd    *exec.Cmd
	url    string
	wanted bool          // its end
	gone   chan struct{} // closed at its end
}

// life is the present one, nil if it does not run.
func (r *replica) life() *life {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// start begins a new life, and tries again while the database is not there.
func (r *replica) start(ctx context.Context) error {
	for {
		r.lives++
		name := fmt.Sprintf("r%d.%d", r.index, r.lives)
		l, err := r.launch(name)
		if err == nil {
			r.mu.Lock()
			r.now = l
			r.mu.Unlock()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("replica %s does not start: %w", name, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (r *replica) launch(name string) (*life, error) {
	dsn := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: r.proxy.Addr().String(), Path: "/" + database,
		RawQuery: url.Values{"sslmode": {"disable"}, "application_name": {name}, "connect_timeout": {"5"}}.Encode(),
	}
	l := &life{name: name, gone: make(chan struct{})}
	l.cmd = exec.Command(r.h.binary, "-addr", "127.0.0.1:0", "-lease", r.h.opts.Lease.String(),
		"-store", dsn.String(), "-ledger", r.h.ledger.add(name))
	l.cmd.SysProcAttr = dieWithParent()
	log, err := os.Create(filepath.Join(r.h.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	l.cmd.Stderr = log
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	// A server that hangs before it listens is as good as none.
	late := time.AfterFunc(30*time.Second, func() { _ = l.cmd.Process.Kill() })
	defer late.Stop()
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	var ok bool
	if l.url, ok = strings.CutPrefix(strings.TrimSpace(line), "listening on "); !ok {
		err := l.cmd.Wait()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%v: %s", err, strings.TrimSpace(string(text)))
	}
	r.h.wg.Go(func() { r.watch(l) })
	return l, nil
}

// watch notes an end that nobody wanted.
func (r *replica) watch(l *life) {
	err := l.cmd.Wait()
	r.mu.Lock()
	wanted := l.wanted
	if r.now == l {
		r.now = nil
	}
	r.mu.Unlock()
	close(l.gone)
	if !wanted {
		r.h.history.fault("%s ended by itself: %v", l.name, err)
	}
}

// end sends a signal and waits for the end of the process.
func (r *replica) end(sig syscall.Signal) error {
	r.mu.Lock()
	l := r.now
	if l != nil {
		l.wanted = true
		if sig == syscall.SIGKILL {
			r.now = nil // nobody need try
		}
	}
	r.mu.Unlock()
	if l == nil {
		return nil
	}
	if err := l.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-l.gone:
	case <-time.After(drain + 20*time.Second):
		_ = l.cmd.Process.Kill()
		<-l.gone
		return fmt.Errorf("%s did not end after %v", l.name, sig)
	}
	if code := l.cmd.ProcessState.ExitCode(); sig == syscall.SIGTERM && code != 0 {
		return fmt.Errorf("%s ended with code %d after SIGTERM", l.name, code)
	}
	return nil
}

// drain is how long a server lets its runs go on after SIGTERM.
const drain = 10 * time.Second

// suffer makes the replica go through an incident. The caller holds trouble.
func (r *replica) suffer(ctx context.Context, in Incident) error {
	l := r.life()
	if l == nil {
		return fmt.Errorf("replica %d does not run", r.index)
	}
	h := r.h
	end := h.history.begin(in.Kind, l.name)
	defer end()
	switch in.Kind {
	case Kill, Terminate:
		sig := syscall.SIGKILL
		if in.Kind == Terminate {
			sig = syscall.SIGTERM
		}
		if err := r.end(sig); err != nil {
			return err
		}
		wait(ctx, in.Hold)
		return r.start(ctx)
	case Freeze:
		if err := l.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		wait(ctx, in.Hold)
		return l.cmd.Process.Signal(syscall.SIGCONT)
	case DarkShort, DarkLong:
		r.proxy.SetDark(true)
		wait(ctx, in.Hold)
		r.proxy.SetDark(false)
	case Cut:
		r.proxy.Cut()
	case Backends:
		return h.terminateBackends(ctx, l.name)
	}
	return nil
}

// wait waits, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
