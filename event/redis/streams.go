package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/everstep-go/everstep/event"
)

// streams is the event.SharedLog of a Bus: a stream for each run, with a chunk in each entry. The number of a
// chunk's first event is its id.
type streams struct {
	client redis.UniversalClient
	opts   Options
	self   uuid.UUID // this process among those who tell
}

var _ event.SharedLog = (*streams)(nil)

// key is that of a run's stream. The id has a fixed length, so no two runs have the same.
func (s *streams) key(tenant string, run uuid.UUID) string {
	return s.opts.Prefix + "run:" + run.String() + ":" + tenant
}

func (s *streams) channel() string { return s.opts.Prefix + "notices" }

func id(number int64) string { return strconv.FormatInt(number, 10) + "-0" }

// notice is what is told to other processes.
type notice struct {
	From    uuid.UUID      `json:"from"`
	Runs    []uuid.UUID    `json:"runs,omitempty"`
	Signals []event.Signal `json:"signals,omitempty"`
}

// add adds a chunk, unless it or a later one is there, because it was sent before or its sender has
// lost the run, or the run has ended. Each entry has the sum of the sizes up to it, so that what the
// stream holds is known without reading it all; the oldest that are too much go.
//
// Numbers of events stay below 2^53, so that they are exact in Lua.
var add = redis.NewScript(`
local key, first, last, ended, session, body = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local limit, life, around = tonumber(ARGV[6]), ARGV[7], 128
local sum = #body + around
local newest = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
if newest then
	if newest[2][4] == '1' or tonumber(newest[2][2]) >= tonumber(first) then return 0 end
	sum = sum + tonumber(newest[2][8])
end
local id = first .. '-0'
redis.call('XADD', key, id, 'last', last, 'ended', ended, 'session', session, 'sum', string.format('%.0f', sum), 'body', body)
while true do
	local oldest = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
	local before = tonumber(oldest[2][8]) - #oldest[2][10] - around
	if oldest[1] == id or sum - before <= limit then break end
	redis.call('XDEL', key, oldest[1])
end
redis.call('PEXPIRE', key, life)
return 1`)

// Append implements [event.SharedLog]. What is told is there by then, also in a cluster, where one pipeline
// would be several.
func (s *streams) Append(ctx context.Context, chunks []event.Chunk, signals []event.Signal) error {
	if err := s.add(ctx, chunks); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	n := notice{From: s.self, Signals: signals}
	for _, c := range chunks {
		n.Runs = append(n.Runs, c.Run)
	}
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	if err := s.client.Publish(ctx, s.channel(), text).Err(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

func (s *streams) add(ctx context.Context, chunks []event.Chunk) error {
	run := func(script func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd) error {
		p := s.client.Pipeline()
		for _, c := range chunks {
			life := s.opts.MaxAge
			if c.Ended {
				life = s.opts.Keep
			}
			script(ctx, p, []string{s.key(c.Tenant, c.Run)},
				c.First, c.Last, c.Ended, c.Session.String(), c.Body, s.opts.Bytes, life.Milliseconds())
		}
		_, err := p.Exec(ctx)
		return err
	}
	err := run(add.EvalSha)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		err = run(add.Eval) // the server is new; what it has by now is not added again
	}
	return err
}

// Read implements [event.SharedLog].
func (s *streams) Read(ctx context.Context, after []event.Position) (chunks []event.Chunk, err error) {
	p := s.client.Pipeline()
	ranges := make([]*redis.XMessageSliceCmd, len(after))
	for i, pos := range after {
		ranges[i] = p.XRange(ctx, s.key(pos.Tenant, pos.Run), id(pos.After+1), "+")
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	for i, pos := range after {
		for _, entry := range ranges[i].Val() {
			c, err := chunk(pos, entry)
			if err != nil {
				return nil, fmt.Errorf("redis: entry %s of run %s: %w", entry.ID, pos.Run, err)
			}
			chunks = append(chunks, c)
		}
	}
	return chunks, nil
}

// chunk reads an entry of a stream.
func chunk(pos event.Position, entry redis.XMessage) (c event.Chunk, err error) {
	text := func(field string) string {
		s, _ := entry.Values[field].(string)
		return s
	}
	c = event.Chunk{Tenant: pos.Tenant, Run: pos.Run, Ended: text("ended") == "1", Body: []byte(text("body"))}
	first, _, _ := strings.Cut(entry.ID, "-")
	var faults [3]error
	c.First, faults[0] = strconv.ParseInt(first, 10, 64)
	c.Last, faults[1] = strconv.ParseInt(text("last"), 10, 64)
	c.Session, faults[2] = uuid.Parse(text("session"))
	return c, errors.Join(faults[:]...)
}

// Listen implements [event.SharedLog].
func (s *streams) Listen(ctx context.Context, hear func(event.Notice)) error {
	sub := s.client.Subscribe(ctx, s.channel())
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // what it waits for does not end with ctx
	for ctx.Err() == nil {
		got, err := sub.ReceiveTimeout(ctx, quietFor)
		if isTimeout(err) {
			err = sub.Ping(ctx) // its answer, or that there is none, comes with the next turn
		}
		if err != nil {
			return fmt.Errorf("redis: listen: %w", err)
		}
		switch got := got.(type) {
		case *redis.Subscription:
			hear(event.Notice{All: true})
		case *redis.Message:
			var n notice
			if err := json.Unmarshal([]byte(got.Payload), &n); err != nil {
				hear(event.Notice{All: true}) // of a version to come
			} else if n.From != s.self {
				hear(event.Notice{Runs: n.Runs, Signals: n.Signals})
			}
		}
	}
	return ctx.Err()
}

// A listening connection that is quiet for quietFor is asked whether it lives.
const quietFor = 5 * time.Second

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
