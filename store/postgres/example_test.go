package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/internal/pgserver"
	"github.com/everstep-go/everstep/store/postgres"
)

func Example() {
	ctx := context.Background()
	s, err := postgres.Open(ctx, "postgres://app@db.example.com/app", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	// graph.NewRunner(g, s, nil)
}

// Where the program's user must not create tables, another one migrates.
func ExampleMigrate() {
	ctx := context.Background()
	server, err := pgserver.Start(ctx, nil)
	if errors.Is(err, pgserver.ErrMissing) {
		fmt.Println(true, "<nil>") // there is no PostgreSQL here
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	dsn := server.DSN("postgres")

	opts := &postgres.Options{Schema: "agents", ManualMigrate: true}
	if err := postgres.Migrate(ctx, dsn, opts); err != nil {
		log.Fatal(err)
	}
	s, err := postgres.Open(ctx, dsn, opts)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	session := uuid.New()
	made, err := s.CreateSession(ctx, "acme", session)
	fmt.Println(made.ID == session, err)
	// Output: true <nil>
}
