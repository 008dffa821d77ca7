// Package redistest gives tests a Redis server of their own. Where Redis is not installed, the tests are
// skipped, unless the variable CI is "true": then they fail.
package redistest

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/everstep-go/everstep/internal/redisserver"
)

// Start starts a server for a test, and stops it when the test ends.
func Start(t testing.TB) *redisserver.Server {
	t.Helper()
	return start(t, redisserver.Start)
}

// StartCluster is Start for a server that is a cluster of its own.
func StartCluster(t testing.TB) *redisserver.Server {
	t.Helper()
	return start(t, redisserver.StartCluster)
}

func start(t testing.TB, f func(context.Context) (*redisserver.Server, error)) *redisserver.Server {
	t.Helper()
	s, err := f(t.Context())
	switch {
	case err == nil:
	case errors.Is(err, redisserver.ErrMissing) && os.Getenv("CI") != "true":
		t.Skipf("needs a Redis server: %v", err)
	default:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
