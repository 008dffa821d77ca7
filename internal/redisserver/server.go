package redisserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// ErrMissing says that Redis is not installed.
var ErrMissing = errors.New("redisserver: Redis is not installed (redis-server is needed)")

// Server is a running Redis server. Its methods may be called by any number of goroutines.
type Server struct {
	program, dir string
	port         int
	cluster      bool

	mu     sync.Mutex // guards what follows
	cmd    *exec.Cmd  // nil while it does not run
	gone   chan error // has the end of cmd
	output bytes.Buffer
}

// Start makes a new server and returns when it accepts connections. The ctx bounds the starting,
// not the server's life.
func Start(ctx context.Context) (*Server, error) { return start(ctx, false) }

// StartCluster is Start for a server that is a cluster of itself: it has all slots, and refuses
// what needs two of them at once.
func StartCluster(ctx context.Context) (*Server, error) { return start(ctx, true) }

func start(ctx context.Context, cluster bool) (_ *Server, err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	dir, err := os.MkdirTemp("", "everstep-redis")
	if err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	s := &Server{program: program, dir: dir, cluster: cluster}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if s.port, err = freePort(); err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	if cluster {
		return s, s.takeSlots(ctx)
	}
	return s, nil
}

// freePort returns a port that nobody listens on at the moment. A cluster's node wants another
// one, 10000 above it.
func freePort() (int, error) {
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port < 55_000 {
			return port, nil
		}
	}
	return 0, errors.New("no free port")
}

// Addr returns the host and port of the server.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Restart kills the server if it runs, and starts it without data.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	args := []string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no"}
	if s.cluster {
		args = append(args, "--cluster-enabled", "yes")
	}
	s.output.Reset()
	cmd := exec.Command(s.program, args...)
	cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = attributes(), &s.output, &s.output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("redisserver: %w", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	s.cmd, s.gone = cmd, gone
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if answer, err := s.ask(ctx, "PING"); err == nil && bytes.HasPrefix(answer, []byte("+PONG")) {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-gone:
			s.cmd = nil
			return fmt.Errorf("redisserver: the server did not start: %v: %s", err, bytes.TrimSpace(s.output.Bytes()))
		case <-ctx.Done():
			return fmt.Errorf("redisserver: start: %w", ctx.Err())
		}
	}
}

// ask sends a command, as one line, and returns what comes back first.
func (s *Server) ask(ctx context.Context, command string) ([]byte, error) {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second)) // without one it just takes longer
	if _, err := c.Write([]byte(command + "\r\n")); err != nil {
		return nil, err
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	return b[:n], err
}

// takeSlots makes the server responsible for all keys.
func (s *Server) takeSlots(ctx context.Context) error {
	if answer, err := s.ask(ctx, "CLUSTER ADDSLOTSRANGE 0 16383"); err != nil || !bytes.HasPrefix(answer, []byte("+OK")) {
		return fmt.Errorf("redisserver: cluster: %w: %s", err, answer)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if answer, err := s.ask(ctx, "CLUSTER INFO"); err == nil && bytes.Contains(answer, []byte("cluster_state:ok")) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("redisserver: cluster: %w", ctx.Err())
		}
	}
}

// Kill ends the server as a crash does. It can be started again with Restart.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("redisserver: %w", err)
	}
	<-s.gone // how it ended does not matter
	s.cmd = nil
	return nil
}

// Pause freezes the server: it accepts connections, but answers nothing until Resume.
func (s *Server) Pause() error { return s.freeze(true) }

// Resume has a frozen server go on.
func (s *Server) Resume() error { return s.freeze(false) }

func (s *Server) freeze(stop bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return errors.New("redisserver: the server does not run")
	}
	return freeze(s.cmd.Process, stop)
}

// Stop ends the server and removes its folder. A second Stop does nothing.
func (s *Server) Stop() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }
