//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/everstep-go/everstep/internal/pgserver"
)

// Options of [Run].
type Options struct {
	Seed     uint64
	Events   int           // that go wrong
	Replicas int           // default: 3
	Clients  int           // default: 8
	Lease    time.Duration // default: 3 s
	Within   time.Duration // in which all has to end when all is healed; default: 60 s
	Build    []string      // more arguments for go build
	Log      io.Writer     // of what happens
}

// harness is one run of it all.
type harness struct {
	opts     Options
	dir      string
	binary   string
	dsn      string // to the database, past the proxies
	pg       *pgserver.Server
	replicas []*replica
	ledger   *ledger
	history  *History
	wg       sync.WaitGroup
	crash    sync.Mutex // held while the database is being restarted
}

// Run makes a plan from the seed, carries it out in a folder, and returns the history. The error is not
// about what the history shows, but that there is none. It is pgserver.ErrMissing if PostgreSQL
// is not installed.
func Run(ctx context.Context, dir string, opts Options) (_ *History, err error) {
	if opts.Replicas == 0 {
		opts.Replicas = 3
	}
	if opts.Clients == 0 {
		opts.Clients = 8
	}
	if opts.Lease == 0 {
		opts.Lease = 3 * time.Second
	}
	if opts.Within == 0 {
		opts.Within = time.Minute
	}
	h := &harness{
		opts: opts, dir: dir, binary: filepath.Join(dir, "server"),
		ledger:  &ledger{dir: dir, files: map[string]*ledgerFile{}},
		history: &History{Lease: opts.Lease, Heartbeat: opts.Lease / 3, Within: opts.Within},
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.open(ctx); err != nil {
		return nil, err
	}
	following, stopFollowing := context.WithCancel(ctx)
	defer stopFollowing()
	var follower sync.WaitGroup
	follower.Go(func() { h.ledger.follow(following) })

	w := newWorkload(h)
	w.start(ctx)
	h.suffer(ctx, Plan(opts.Seed, opts.Events, opts.Replicas, opts.Lease))
	h.history.Healed = time.Now()
	h.logf("all is healed")
	w.tail(ctx)
	w.finish(ctx)
	if err := h.quiet(ctx); err != nil {
		return nil, err
	}
	w.leave()
	stopFollowing()
	follower.Wait()
	h.said()
	h.history.Lines = h.ledger.lines
	return h.history, h.history.load(ctx, h.dsn)
}

// open starts the database and the replicas.
func (h *harness) open(ctx context.Context) (err error) {
	if h.pg, err = pgserver.Start(ctx, &pgserver.Options{TCP: true, Settings: map[string]string{"max_connections": "200"}}); err != nil {
		return err
	}
	if err := h.pg.CreateDatabase(ctx, database); err != nil {
		return err
	}
	h.dsn = h.pg.DSN(database) + " application_name=harness"
	if err := install(ctx, h.dsn); err != nil {
		return err
	}
	// The module of the examples is another one: built from here, it needs no workspace.
	build := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", h.binary}, h.opts.Build...), "./server")...)
	build.Dir = filepath.Join("..", "..", "examples")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./server: %w: %s", err, out)
	}
	for i := range h.opts.Replicas {
		proxy, err := NewProxy(net.JoinHostPort("127.0.0.1", strconv.Itoa(h.pg.Port())))
		if err != nil {
			return err
		}
		r := &replica{index: i, h: h, proxy: proxy}
		h.replicas = append(h.replicas, r)
		starting, cancel := context.WithTimeout(ctx, time.Minute)
		err = r.start(starting)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *harness) close() error {
	for _, r := range h.replicas {
		if l := r.life(); l != nil {
			_ = l.cmd.Process.Signal(syscall.SIGCONT)
			_ = r.end(syscall.SIGKILL)
		}
		r.proxy.Close()
	}
	h.wg.Wait()
	if h.pg == nil {
		return nil
	}
	return h.pg.Stop()
}

// suffer carries out a plan, and returns when nothing is wrong any more. While something is wrong
// with one replica, something may be with another one or with the database.
func (h *harness) suffer(ctx context.Context, plan []Incident) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, in := range plan {
		r := h.replicas[in.Replica]
		busy := &r.trouble
		if in.Kind == Crash {
			busy = &h.crash
		}
		busy.Lock()
		h.logf("%d/%d %s, replica %d, %v", i+1, len(plan), in.Kind, in.Replica, in.Hold.Round(time.Millisecond))
		wg.Go(func() {
			defer busy.Unlock()
			ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			var err error
			if in.Kind == Crash {
				end := h.history.begin(in.Kind, "")
				err = h.pg.Restart(ctx, true)
				end()
			} else {
				err = r.suffer(ctx, in)
			}
			if err != nil {
				h.history.fault("%s of replica %d: %v", in.Kind, in.Replica, err)
			}
		})
		wait(ctx, in.Pause)
		if ctx.Err() != nil {
			return
		}
	}
}

// quiet waits until every run has ended, or for a time after which that is a violation.
func (h *harness) quiet(ctx context.Context) error {
	for {
		n, err := unfinished(ctx, h.dsn)
		if err != nil || n == 0 {
			return err
		}
		if time.Since(h.history.Healed) > h.opts.Within {
			h.logf("%d runs do not end", n)
			return nil
		}
		wait(ctx, 100*time.Millisecond)
	}
}

// said looks into the logs of the servers for what must not be there.
func (h *harness) said() {
	logs, _ := filepath.Glob(filepath.Join(h.dir, "*.log"))
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			continue
		}
		for _, bad := range []string{"DATA RACE", "panic: ", "fatal error: "} {
			if strings.Contains(string(text), bad) {
				h.history.fault("%s: %s", filepath.Base(log), bad)
			}
		}
	}
}

func (h *harness) logf(format string, args ...any) {
	if h.opts.Log != nil {
		fmt.Fprintf(h.opts.Log, "%s %s\n", clock(time.Now()), fmt.Sprintf(format, args...))
	}
}
