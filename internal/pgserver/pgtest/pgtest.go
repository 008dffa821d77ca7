// Package pgtest gives tests a PostgreSQL database of their own. A test process has one server
// for all; its TestMain stops it:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// Where PostgreSQL is not installed, the tests are skipped, unless the variable CI is "true":
// then they fail.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/everstep-go/everstep/internal/pgserver"
)

// shared is the server of the test process.
var shared struct {
	once      sync.Once
	server    *pgserver.Server
	err       error
	databases atomic.Int64
}

// Main runs the tests, stops the server if they started one, and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Server returns the server that the tests of the process share. Whoever restarts it restarts
// it for all.
func Server(t testing.TB) *pgserver.Server {
	t.Helper()
	shared.once.Do(func() {
		shared.server, shared.err = pgserver.Start(context.Background(), &pgserver.Options{
			TCP: true, Settings: map[string]string{"max_connections": "400"},
		})
	})
	check(t, shared.err)
	return shared.server
}

// New makes a new database on the shared server and returns its DSN.
func New(t testing.TB) string {
	t.Helper()
	return Database(t, Server(t))
}

// Database makes a new database on a server and returns its DSN.
func Database(t testing.TB, s *pgserver.Server) string {
	t.Helper()
	name := fmt.Sprintf("test%d", shared.databases.Add(1))
	check(t, s.CreateDatabase(t.Context(), name))
	return s.DSN(name)
}

// Start starts a server for one test alone, to be restarted or set up in another way, and
// stops it when the test ends.
func Start(t testing.TB, opts *pgserver.Options) *pgserver.Server {
	t.Helper()
	s, err := pgserver.Start(t.Context(), opts)
	check(t, err)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Need skips the test if PostgreSQL is missing.
func Need(t testing.TB) {
	t.Helper()
	Server(t)
}

func check(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, pgserver.ErrMissing) && os.Getenv("CI") != "true":
		t.Skipf("needs a PostgreSQL server: %v", err)
	default:
		t.Fatal(err)
	}
}
