package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/sqlite"
)

func Example() {
	dir, err := os.MkdirTemp("", "everstep")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "agent.db")

	s, err := sqlite.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	session := uuid.New()
	if _, err := s.CreateSession(ctx, "acme", session); err != nil {
		log.Fatal(err)
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}

	// The next process finds what this one left.
	s, err = sqlite.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	found, err := s.Session(ctx, "acme", session)
	fmt.Println(found.ID == session, err)
	// Output: true <nil>
}

func ExampleOpen_locked() {
	dir, err := os.MkdirTemp("", "everstep")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "agent.db")

	s, err := sqlite.Open(path, &sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	_, err = sqlite.Open(path, nil)
	fmt.Println(errors.Is(err, store.ErrLocked))
	// Output: true
}
