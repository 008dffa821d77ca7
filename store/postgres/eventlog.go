package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/everstep-go/everstep/event"
)

// eventLog is the event.SharedLog of a Bus.
type eventLog struct {
	store   *Store
	listen  *pgx.ConnConfig
	channel string
	self    uuid.UUID // that of this process among those who notify
	keep    time.Duration
	bytes   int
}

var _ event.SharedLog = (*eventLog)(nil)

const insertEvents = `INSERT INTO everstep.events (run, tenant, first, last, session, ended, at, size, body)
SELECT run, tenant, first, last, session, ended, now, length(body), body
FROM (SELECT ` + sqlNow + ` AS now) AS clock, unnest($2::uuid[], $3::bytea[], $4::bigint[], $5::bigint[], $6::uuid[], $7::boolean[], $8::bytea[]) AS e(run, tenant, first, last, session, ended, body)
ON CONFLICT DO NOTHING`

// Append implements [event.SharedLog], in one round trip. It does not wait for the disk.
func (l *eventLog) Append(ctx context.Context, chunks []event.Chunk, signals []event.Signal) error {
	var (
		runs, sessions  []pgtype.UUID
		tenants, bodies [][]byte
		first, last     []int64
		ended           []bool
		ids             []uuid.UUID
	)
	for _, c := range chunks {
		runs, sessions = append(runs, uid(c.Run)), append(sessions, uid(c.Session))
		tenants, bodies = append(tenants, hashed(c.Tenant)), append(bodies, c.Body)
		first, last, ended = append(first, c.First), append(last, c.Last), append(ended, c.Ended)
		ids = append(ids, c.Run)
	}
	payloads, err := notices(l.self, ids, signals)
	if err != nil {
		return err
	}
	return l.store.write(ctx, "append events", lost, func(ctx context.Context, c *pgx.Conn) error {
		b := l.store.batch()
		b.exec(begin)
		b.exec(`SET LOCAL synchronous_commit = off`)
		if len(chunks) > 0 {
			b.exec(insertEvents, l.store.clock(), runs, tenants, first, last, sessions, ended, bodies)
		}
		b.exec(`SELECT pg_notify($1::text, payload) FROM unnest($2::text[]) AS n(payload)`, l.channel, payloads)
		b.exec(done)
		return b.send(ctx, c)
	})
}

const selectEvents = `SELECT p.n, e.session, e.first, e.last, e.ended, e.body
FROM unnest($1::uuid[], $2::bytea[], $3::bigint[]) WITH ORDINALITY AS p(run, tenant, after, n)
JOIN everstep.events e ON e.run = p.run AND e.tenant = p.tenant AND e.first > p.after
ORDER BY p.n, e.first`

// Read implements [event.SharedLog].
func (l *eventLog) Read(ctx context.Context, after []event.Position) (chunks []event.Chunk, err error) {
	var runs []pgtype.UUID
	var tenants [][]byte
	var numbers []int64
	for _, p := range after {
		runs, tenants, numbers = append(runs, uid(p.Run)), append(tenants, hashed(p.Tenant)), append(numbers, p.After)
	}
	err = l.store.read(ctx, "read events", func(ctx context.Context, c *pgx.Conn) error {
		chunks = nil
		rows, err := c.Query(ctx, l.store.sql(selectEvents), runs, tenants, numbers)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int64
			var session pgtype.UUID
			var chunk event.Chunk
			if err := rows.Scan(&n, &session, &chunk.First, &chunk.Last, &chunk.Ended, &chunk.Body); err != nil {
				return err
			}
			p := after[n-1]
			chunk.Tenant, chunk.Run, chunk.Session = p.Tenant, p.Run, session.Bytes
			chunks = append(chunks, chunk)
		}
		return rows.Err()
	})
	return chunks, err
}

// A listening connection that is quiet for quietFor is asked whether it lives.
const quietFor = 5 * time.Second

// Listen implements [event.SharedLog].
func (l *eventLog) Listen(ctx context.Context, hear func(event.Notice)) error {
	setup, cancel := context.WithTimeout(ctx, quietFor)
	defer cancel()
	c, err := pgx.ConnectConfig(setup, l.listen)
	if err != nil {
		return fmt.Errorf("postgres: listen: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	}()
	if _, err := c.Exec(setup, `LISTEN `+pgx.Identifier{l.channel}.Sanitize()); err != nil {
		return fmt.Errorf("postgres: listen: %w", err)
	}
	hear(event.Notice{All: true})
	for {
		n, err := waitFor(ctx, c)
		if err != nil {
			return fmt.Errorf("postgres: listen: %w", err)
		}
		if n == nil {
			continue
		}
		var got notice
		if err := json.Unmarshal([]byte(n.Payload), &got); err != nil {
			hear(event.Notice{All: true}) // of a version to come
			continue
		}
		if got.From != l.self {
			hear(event.Notice{Runs: got.Runs, Signals: got.Signals})
		}
	}
}

// waitFor returns the next notification, or nil if there was none for a while and the connection
// lives.
func waitFor(ctx context.Context, c *pgx.Conn) (*pgconn.Notification, error) {
	quiet, cancel := context.WithTimeout(ctx, quietFor)
	defer cancel()
	n, err := c.WaitForNotification(quiet)
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return n, err
	}
	ping, cancel := context.WithTimeout(ctx, quietFor)
	defer cancel()
	return nil, c.Ping(ping)
}

// notice is the payload of a notification.
type notice struct {
	From    uuid.UUID      `json:"from"`
	Runs    []uuid.UUID    `json:"runs,omitempty"`
	Signals []event.Signal `json:"signals,omitempty"`
}

const (
	maxPayload = 7900 // bytes; the server takes less than 8000
	runSize    = 39   // of a run in a payload
)

// notices returns payloads that name all runs and signals. A signal that is too long is left out:
// it is a hint.
func notices(from uuid.UUID, runs []uuid.UUID, signals []event.Signal) (payloads []string, err error) {
	n := notice{From: from}
	size := 0
	flush := func() error {
		text, err := json.Marshal(n)
		payloads = append(payloads, string(text))
		n, size = notice{From: from}, 0
		return err
	}
	const room = maxPayload - 100 // for what is around them
	for _, run := range runs {
		if size+runSize > room {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		n.Runs = append(n.Runs, run)
		size += runSize
	}
	for _, s := range signals {
		text, err := json.Marshal(s)
		if err != nil || len(text) > room {
			continue
		}
		if size+len(text)+1 > room {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		n.Signals = append(n.Signals, s)
		size += len(text) + 1
	}
	if size > 0 {
		err = flush()
	}
	return payloads, err
}

func hashed(tenant string) []byte {
	sum := sha256.Sum256([]byte(tenant))
	return sum[:]
}
