package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// user is the superuser of each server.
const user = "postgres"

// Options of [Start]. The zero value has the defaults.
type Options struct {
	// BinDir has the programs initdb, postgres and psql. If empty, they are looked for.
	BinDir string
	// TCP makes the server listen on a free port of 127.0.0.1 too, as proxies need it.
	TCP bool
	// Fsync makes commits reach the disk. Without it a power cut damages the data, which are
	// temporary.
	Fsync bool
	// Settings of postgresql.conf.
	Settings map[string]string
}

// Server is a running PostgreSQL server. Its methods may be called by any number of goroutines.
type Server struct {
	bin, dir string
	port     int
	tcp      bool
	args     []string

	mu   sync.Mutex // guards cmd and gone
	cmd  *exec.Cmd  // nil once it is stopped
	gone chan error // has the end of cmd
	log  *os.File
}

// Start makes a new server and returns when it accepts connections. The ctx bounds the starting,
// not the server's life.
func Start(ctx context.Context, opts *Options) (_ *Server, err error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	bin, err := find(o.BinDir)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "everstep-pg")
	if err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	s := &Server{bin: bin, dir: dir, port: 5432, tcp: o.TCP}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if err := giveAway(dir); err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", s.data(), "-U", user, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attributes(), dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pgserver: initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	settings := map[string]string{"listen_addresses": "", "unix_socket_directories": dir}
	if !o.Fsync {
		settings["fsync"], settings["full_page_writes"] = "off", "off"
	}
	if o.TCP {
		if s.port, err = freePort(); err != nil {
			return nil, fmt.Errorf("pgserver: %w", err)
		}
		settings["listen_addresses"] = "127.0.0.1"
	}
	settings["port"] = strconv.Itoa(s.port)
	maps.Copy(settings, o.Settings)
	s.args = []string{"-D", s.data()}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s.args = append(s.args, "-c", name+"="+settings[name])
	}
	if s.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.start(ctx)
}

// freePort returns a port that nobody listens on at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// start runs the server and waits until it says that it is ready. The caller has mu.
func (s *Server) start(ctx context.Context) error {
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), s.args...)
	cmd.SysProcAttr, cmd.Dir = attributes(), s.dir
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	s.cmd, s.gone = cmd, gone
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !s.ready(cmd.Process.Pid) {
		select {
		case <-tick.C:
		case err := <-gone:
			s.cmd = nil
			log, _ := os.ReadFile(s.log.Name())
			return fmt.Errorf("pgserver: the server did not start: %w: %s", err, bytes.TrimSpace(log))
		case <-ctx.Done():
			return fmt.Errorf("pgserver: start: %w", ctx.Err())
		}
	}
	return nil
}

// ready reports whether the server with this pid accepts connections: the last line of its pid
// file says so.
func (s *Server) ready(pid int) bool {
	b, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[0] == strconv.Itoa(pid) && strings.TrimSpace(lines[len(lines)-1]) == "ready"
}

// DSN returns what a client needs to connect to a database: over TCP if the server listens
// there, else over its socket.
func (s *Server) DSN(database string) string {
	host := s.dir
	if s.tcp {
		host = "127.0.0.1"
	}
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=disable", host, s.port, user, database)
}

// Socket returns the folder of the server's socket.
func (s *Server) Socket() string { return s.dir }

// Port returns the server's port: of its socket, and of TCP if it listens there.
func (s *Server) Port() int { return s.port }

// CreateDatabase makes an empty database.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	return s.Execute(ctx, "postgres", `CREATE DATABASE "`+name+`" TEMPLATE template0`)
}

// Execute runs SQL with psql.
func (s *Server) Execute(ctx context.Context, database, sql string) error {
	psql := exec.CommandContext(ctx, filepath.Join(s.bin, "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1",
		"-h", s.dir, "-p", strconv.Itoa(s.port), "-U", user, "-d", database, "-c", sql)
	if out, err := psql.CombinedOutput(); err != nil {
		return fmt.Errorf("pgserver: psql: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Restart stops the server and starts it again on the same data. With immediate set it does
// not shut down but crash: it ends without writing anything, and recovers when it starts.
func (s *Server) Restart(ctx context.Context, immediate bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return errors.New("pgserver: restart: the server is stopped")
	}
	sig := syscall.SIGINT
	if immediate {
		sig = syscall.SIGQUIT
	}
	if err := s.end(sig); err != nil {
		return err
	}
	return s.start(ctx)
}

// end sends the signal and waits for the server's end. The caller has mu.
func (s *Server) end(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("pgserver: %w", err)
	}
	<-s.gone // how it ended does not matter
	s.cmd = nil
	return nil
}

// Stop ends the server and removes its data. A second Stop does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.cmd != nil {
		errs = append(errs, s.end(syscall.SIGQUIT)) // the data go anyway
	}
	if s.log != nil {
		_ = s.log.Close() // a second Close is no matter
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
