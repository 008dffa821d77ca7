package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/pgserver"
	"github.com/everstep-go/everstep/store/postgres"
)

// conns is how many connections each contender may have.
const conns = 32

// database makes a database and returns how to connect to it.
func database(ctx context.Context, s *pgserver.Server, name string) (string, error) {
	return fmt.Sprintf("%s pool_max_conns=%d", s.DSN(name), conns), s.CreateDatabase(ctx, name)
}

// letters are what a step keeps: different each time, and nothing that could be compressed much.
func letters() string {
	b := make([]byte, size)
	for i := range b {
		b[i] = 'a' + byte(rand.N(26))
	}
	return string(b)
}

func openBare(ctx context.Context, s *pgserver.Server) (c contender, end func(), err error) {
	c.name = "bare"
	dsn, err := database(ctx, s, c.name)
	if err != nil {
		return c, nil, err
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return c, nil, err
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE steps (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)"); err != nil {
		return c, nil, err
	}
	c.run = func(ctx context.Context, done func()) error {
		for range steps {
			if _, err := pool.Exec(ctx, "INSERT INTO steps (body) VALUES ($1)", letters()); err != nil {
				return err
			}
			done()
		}
		return nil
	}
	return c, pool.Close, nil
}

// work is the state of our runs.
type work struct {
	Left int
	Text string
}

// step does nothing but to change the state. It may touch something outside, as far as the runner knows: so what it
// did is durable before it runs again.
type step struct {
	Again graph.Edge[step, step]
	End   graph.End[step]
}

type doneKey struct{}

func (s *step) Run(ctx context.Context, w work) (work, graph.Next[step], error) {
	if w.Left < steps { // the one before is durable
		ctx.Value(doneKey{}).(func())()
	}
	if w.Left == 0 {
		return w, s.End.Next(), nil
	}
	return work{Left: w.Left - 1, Text: letters()}, s.Again.Next(), nil
}

func openEverstep(ctx context.Context, s *pgserver.Server) (c contender, end func(), err error) {
	c.name = "everstep"
	dsn, err := database(ctx, s, c.name)
	if err != nil {
		return c, nil, err
	}
	st, err := postgres.Open(ctx, dsn, nil)
	if err != nil {
		return c, nil, err
	}
	g, err := graph.New("steps", graph.Node("step", &step{}))
	if err != nil {
		return c, nil, err
	}
	runner, err := graph.NewRunner(g, st, nil)
	if err != nil {
		return c, nil, err
	}
	c.run = func(ctx context.Context, done func()) error {
		run, err := runner.Start(context.WithValue(ctx, doneKey{}, done), graph.StartParams[work]{Input: &work{Left: steps}})
		if err != nil {
			return err
		}
		_, err = run.Wait(ctx)
		return err
	}
	return c, func() { _ = runner.Shutdown(ctx); _ = st.Close() }, nil
}

func openDBOS(ctx context.Context, s *pgserver.Server) (c contender, end func(), err error) {
	c.name = "dbos"
	dsn, err := database(ctx, s, c.name)
	if err != nil {
		return c, nil, err
	}
	d, err := dbos.NewContext(ctx, dbos.Config{AppName: "bench", DatabaseURL: dsn, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return c, nil, err
	}
	type key struct{}
	workflow := func(ctx dbos.Context, _ string) (string, error) {
		done := ctx.Value(key{}).(func())
		for range steps {
			if _, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return letters(), nil }); err != nil {
				return "", err
			}
			done()
		}
		return "", nil
	}
	dbos.RegisterWorkflow(d, workflow)
	if err := dbos.Launch(d); err != nil {
		return c, nil, err
	}
	c.run = func(_ context.Context, done func()) error {
		handle, err := dbos.RunWorkflow(dbos.WithValue(d, key{}, done), workflow, "")
		if err != nil {
			return err
		}
		_, err = handle.GetResult()
		return err
	}
	return c, func() { dbos.Shutdown(d, time.Second) }, nil
}
