package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/everstep-go/everstep/event"
)

// BusOptions are the options of [NewBus]. The zero value has the defaults.
type BusOptions struct {
	// Schema, Pooler, ManualMigrate and Logger are as in [Options].
	Schema        string
	Pooler        bool
	ManualMigrate bool
	Logger        *slog.Logger
	// ListenDSN leads to the server itself, for the one connection that listens: a pooler in
	// transaction mode does not carry notifications. Empty means the DSN of the rest.
	ListenDSN string
	// Keep is how long the events of a run that has ended are kept. Default: a minute.
	Keep time.Duration
	// Bytes bounds the events that are kept of one run. Default: 4 MiB.
	Bytes int
	// Relay tunes what this process keeps, collects and waits for.
	Relay event.RelayOptions
}

// Bus is an event.Bus between the processes that use a database. Events go into a table that the
// server does not log, beside the commits and not waiting for the disk, and a notification for all
// that came within some milliseconds tells the others.
//
// Without notifications, as when the listening connection is being made again, the others look
// into the table every second. Without the database everything in this process goes on; what could
// not be sent in the meantime shows elsewhere as an event.GapError.
type Bus struct {
	*event.Relay
	log    *eventLog
	cancel context.CancelFunc
	swept  sync.WaitGroup
}

// NewBus connects to the database that the DSN names and brings the schema up to date, as [Open]
// does. The ctx bounds that, not the bus's life.
func NewBus(ctx context.Context, dsn string, opts *BusOptions) (*Bus, error) {
	var o BusOptions
	if opts != nil {
		o = *opts
	}
	so := (&Options{Schema: o.Schema, MaxConns: 4, Pooler: o.Pooler, ManualMigrate: o.ManualMigrate, Logger: slog.New(slog.DiscardHandler)}).withDefaults()
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Relay.Logger == nil {
		o.Relay.Logger = o.Logger
	}
	if o.ListenDSN == "" {
		o.ListenDSN = dsn
	}
	if o.Keep <= 0 {
		o.Keep = time.Minute
	}
	if o.Bytes <= 0 {
		o.Bytes = 4 << 20
	}
	listen, err := pgx.ParseConfig(o.ListenDSN)
	if err != nil {
		return nil, fmt.Errorf("postgres: BusOptions.ListenDSN: %w", err)
	}
	st, err := Open(ctx, dsn, &so)
	if err != nil {
		return nil, err
	}
	log := &eventLog{store: st, listen: listen, channel: so.Schema, self: uuid.New(), keep: o.Keep, bytes: o.Bytes}
	life, cancel := context.WithCancel(context.Background())
	b := &Bus{Relay: event.NewRelay(log, &o.Relay), log: log, cancel: cancel}
	b.swept.Go(func() { log.sweepAll(life, o.Logger) })
	return b, nil
}

// Close sends what waits and ends all observers.
func (b *Bus) Close() error {
	err := b.Relay.Close()
	b.cancel()
	b.swept.Wait()
	if closed := b.log.store.Close(); err == nil {
		err = closed
	}
	return err
}

// sweepEvery is about how often chunks are removed.
const sweepEvery = 15 * time.Second

// stale is how long the log of a run is kept in which nothing happens. Its observers begin again
// with a snapshot.
const stale = time.Hour

// sweepAll removes chunks that are not needed any more, until ctx ends.
func (l *eventLog) sweepAll(ctx context.Context, log *slog.Logger) {
	for {
		timer := time.NewTimer(sweepEvery/2 + rand.N(sweepEvery))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if err := l.sweep(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "old events not removed", "error", err)
		}
	}
}

const sweepSQL = `WITH old AS (
	SELECT run, tenant, first FROM (
		SELECT run, tenant, first, bool_or(ended) OVER of_run AS ended, max(at) OVER of_run AS latest,
			sum(size) OVER (PARTITION BY run, tenant ORDER BY first DESC) AS bytes
		FROM everstep.events WINDOW of_run AS (PARTITION BY run, tenant)
	) AS logs
	WHERE ended AND latest < $1::bigint OR latest < $2::bigint OR bytes > $3::bigint
	LIMIT 10000
)
DELETE FROM everstep.events e USING old WHERE e.run = old.run AND e.tenant = old.tenant AND e.first = old.first`

// sweep is done by one process at a time; another one that comes meanwhile has nothing to do.
func (l *eventLog) sweep(ctx context.Context) error {
	return l.store.call(ctx, "sweep events", lost, func(c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			var ours bool
			if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1::bigint)`, lockNumber(l.store.schema+" events")).Scan(&ours); err != nil || !ours {
				return err
			}
			var now int64
			if err := tx.QueryRow(ctx, `SELECT `+sqlNow, l.store.clock()).Scan(&now); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, l.store.sql(sweepSQL), now-int64(l.keep), now-int64(stale), l.bytes)
			return err
		})
	})
}
