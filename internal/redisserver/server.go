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
	cluster      bool

	mu   sync.Mutex // guards what follows
	cmd  *exec.Cmd  // nil while it is stopped
	gone chan struct{}
	out  *bytes.Buffer // complete when gone is closed
}

// Start starts a server on a free port of 127.0.0.1 and returns when it accepts connections. The ctx
// bounds the starting, not the server's life.
func Start(ctx context.Context) (*Server, error) { return start(ctx, false) }

// StartCluster is Start for a server that is a cluster of its own: it has all slots, and refuses what
// needs two of them at once.
func StartCluster(ctx context.Context) (*Server, error) { return start(ctx, true) }

func start(ctx context.Context, cluster bool) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrMissing
	}
	dir, err := os.MkdirTemp("", "everstep-redis")
	if err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("redisserver: %w", err), os.RemoveAll(dir))
	}
	s := &Server{program: program, dir: dir, port: port, cluster: cluster}
	if err := s.Resume(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// freePort returns a port that nobody listens on at the moment. The nodes of a cluster listen on another
// one, 10000 above it, too.
func freePort() (int, error) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close() // the port is free again
		if port <= 65535-10000 {
			return port, nil
		}
	}
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
	args := []string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir}
	if s.cluster {
		args = append(args, "--cluster-enabled", "yes")
	}
	cmd := exec.Command(s.program, args...)
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

// ready reports whether the server accepts what is sent to it.
func (s *Server) ready() bool {
	if !s.cluster {
		return strings.HasPrefix(s.ask("PING"), "+PONG")
	}
	if strings.Contains(s.ask("CLUSTER INFO"), "cluster_state:ok") {
		return true
	}
	s.ask("CLUSTER ADDSLOTSRANGE 0 16383") // an error is that it has them, after a restart
	return false
}

// ask sends a command and returns what comes back first, nothing if it fails.
func (s *Server) ask(command string) string {
	c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second)) // a read that fails says enough
	if _, err := c.Write([]byte(command + "\r\n")); err != nil {
		return ""
	}
	answer := make([]byte, 4096)
	n, _ := c.Read(answer) // as above
	return string(answer[:n])
}

// Freeze has the server accept connections, but answer nothing until Thaw.
func (s *Server) Freeze() error { return s.signal(freeze) }

// Thaw has a frozen server go on.
func (s *Server) Thaw() error { return s.signal(thaw) }

func (s *Server) signal(send func(*os.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return errors.New("redisserver: the server is not running")
	}
	return send(s.cmd.Process)
}

// Stop ends the server. A second Stop does nothing.
func (s *Server) Stop() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}
