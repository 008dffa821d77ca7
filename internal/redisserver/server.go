package redisserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrMissing says that Redis is not installed.
var ErrMissing = errors.New("redisserver: redis-server is not installed")

// Server is a running Redis server. Its methods may be called by any number of goroutines.
type Server struct {
	program, dir string
	port         int

	mu   sync.Mutex // guards what follows
	cmd  *exec.Cmd  // nil while it is stopped
	gone chan struct{}
	out  *bytes.Buffer // complete when gone is closed
}

// Start starts a server on a free port of 127.0.0.1 and returns when it accepts connections. The ctx
// bounds the starting, not the server's life.
func Start(ctx context.Context) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrMissing
	}
	dir, err := os.MkdirTemp("", "everstep-redis")
	if err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("redisserver: %w", err), os.RemoveAll(dir))
	}
	s := &Server{program: program, dir: dir, port: l.Addr().(*net.TCPAddr).Port}
	_ = l.Close() // the port is free again
	if err := s.Resume(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Addr returns the server's host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Kill ends the server at once, and with it what it has. Resume starts it again.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended by itself
		<-s.gone
		s.cmd = nil
	}
}

// Resume starts a server that was killed, on the same port.
func (s *Server) Resume(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return errors.New("redisserver: the server is running")
	}
	out := &bytes.Buffer{}
	cmd := exec.Command(s.program, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, out, attributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("redisserver: %w", err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // how it ended does not matter
	}()
	s.cmd, s.gone, s.out = cmd, gone, out
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !s.ready() {
		select {
		case <-tick.C:
		case <-gone:
			s.cmd = nil
			return fmt.Errorf("redisserver: the server did not start: %s", bytes.TrimSpace(out.Bytes()))
		case <-ctx.Done():
			return fmt.Errorf("redisserver: start: %w", ctx.Err())
		}
	}
	return nil
}

func (s *Server) ready() bool {
	c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second)) // a read that fails says enough
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && strings.HasPrefix(answer, "+PONG")
}

// Stop ends the server. A second Stop does nothing.
func (s *Server) Stop() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}
