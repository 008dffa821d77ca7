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
	goredis "github.com/redis/go-redis/v9"

	"github.com/everstep-go/everstep/event"
)

// streams is the event.SharedLog of a Bus: a stream for each run, whose entries are chunks under
// the number of their first event.
type streams struct {
	client  goredis.UniversalClient
	prefix  string
	channel string
	self    uuid.UUID // that of this process among those who tell
	keep    time.Duration
	bytes   int
}

var _ event.SharedLog = (*streams)(nil)

// key is that of the stream of a run.
func (s *streams) key(tenant string, run uuid.UUID) string {
	return s.prefix + run.String() + ":" + tenant
}

// add adds a chunk unless one is there that is as new, or ended the run. An entry has a running
// total of bytes, so that it is known what the stream holds without reading it.
//
// Numbers of events stay below 2^53, so that a number of Lua is exact.
var add = goredis.NewScript(`
local key, first, last = KEYS[1], ARGV[1], ARGV[2]
local total = tonumber(ARGV[6])
local newest = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
if newest then
	local top = tonumber(string.match(newest[1], '^%d+'))
	if newest[2][6] == '1' or top >= tonumber(first) or tonumber(newest[2][2]) >= tonumber(first) then return 0 end
	total = total + tonumber(newest[2][8])
end
redis.call('XADD', key, first .. '-0', 'last', last, 'session', ARGV[3], 'ended', ARGV[4], 'total', string.format('%.0f', total), 'body', ARGV[5])
while newest do
	local oldest = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
	if oldest[1] == first .. '-0' or total - tonumber(oldest[2][8]) + #oldest[2][10] <= tonumber(ARGV[7]) then break end
	redis.call('XDEL', key, oldest[1])
end
redis.call('PEXPIRE', key, ARGV[8])
return 1`)

// The places of an entry's fields in the script's answers, and here their names.
const (
	lastField    = "last"
	sessionField = "session"
	endedField   = "ended"
	bodyField    = "body"
)

// Append implements [event.SharedLog]. What is told is in the streams by then, also in a cluster, where
// one pipeline would be several.
func (s *streams) Append(ctx context.Context, chunks []event.Chunk, signals []event.Signal) error {
	if err := s.add(ctx, chunks); err != nil {
		return err
	}
	told := notice{From: s.self, Signals: signals}
	for i := range chunks {
		told.Runs = append(told.Runs, chunks[i].Run)
	}
	text, err := json.Marshal(told)
	if err != nil {
		return fmt.Errorf("redis: notice: %w", err)
	}
	if err := s.client.Publish(ctx, s.channel, text).Err(); err != nil {
		return fmt.Errorf("redis: publish: %w", err)
	}
	return nil
}

func (s *streams) add(ctx context.Context, chunks []event.Chunk) error {
	if len(chunks) == 0 {
		return nil
	}
	run := func(script func(context.Context, goredis.Scripter, []string, ...any) *goredis.Cmd) error {
		pipe := s.client.Pipeline()
		for i := range chunks {
			c := &chunks[i]
			ended, keep := "0", stale
			if c.Ended {
				ended, keep = "1", s.keep
			}
			script(ctx, pipe, []string{s.key(c.Tenant, c.Run)},
				c.First, c.Last, c.Session.String(), ended, c.Body, len(c.Body), s.bytes, keep.Milliseconds())
		}
		_, err := pipe.Exec(ctx)
		return err
	}
	err := run(add.EvalSha)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		err = run(add.Eval) // a new server; what was added is not added again
	}
	if err != nil {
		return fmt.Errorf("redis: add: %w", err)
	}
	return nil
}

// Read implements [event.SharedLog], in one round trip.
func (s *streams) Read(ctx context.Context, after []event.Position) ([]event.Chunk, error) {
	pipe := s.client.Pipeline()
	answers := make([]*goredis.XMessageSliceCmd, len(after))
	for i, p := range after {
		answers[i] = pipe.XRange(ctx, s.key(p.Tenant, p.Run), "("+strconv.FormatInt(p.After, 10)+"-0", "+")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("redis: read: %w", err)
	}
	var chunks []event.Chunk
	for i, p := range after {
		for _, m := range answers[i].Val() {
			c, err := chunk(&m)
			if err != nil {
				return nil, fmt.Errorf("redis: read: entry %s of run %s: %w", m.ID, p.Run, err)
			}
			c.Tenant, c.Run = p.Tenant, p.Run
			chunks = append(chunks, c)
		}
	}
	return chunks, nil
}

func chunk(m *goredis.XMessage) (c event.Chunk, err error) {
	field := func(name string) string {
		text, _ := m.Values[name].(string)
		return text
	}
	id, _, _ := strings.Cut(m.ID, "-")
	first, err1 := strconv.ParseInt(id, 10, 64)
	last, err2 := strconv.ParseInt(field(lastField), 10, 64)
	session, err3 := uuid.Parse(field(sessionField))
	return event.Chunk{
		Session: session, First: first, Last: last, Ended: field(endedField) == "1", Body: []byte(field(bodyField)),
	}, errors.Join(err1, err2, err3)
}

// notice is what is published on the channel.
type notice struct {
	From    uuid.UUID      `json:"from"`
	Runs    []uuid.UUID    `json:"runs,omitempty"`
	Signals []event.Signal `json:"signals,omitempty"`
}

// A subscription that is quiet for quietFor is asked whether it lives.
const quietFor = 5 * time.Second

// Listen implements [event.SharedLog].
func (s *streams) Listen(ctx context.Context, hear func(event.Notice)) error {
	sub := s.client.Subscribe(ctx, s.channel)
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // a client need not look at ctx while it waits
	asked := false
	for {
		m, err := sub.ReceiveTimeout(ctx, quietFor)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !asked && ctx.Err() == nil {
			asked = true
			err = sub.Ping(ctx)
		} else if err == nil {
			asked = false
		}
		if err != nil {
			return fmt.Errorf("redis: listen: %w", err)
		}
		switch m := m.(type) {
		case *goredis.Subscription:
			hear(event.Notice{All: true})
		case *goredis.Message:
			var got notice
			if err := json.Unmarshal([]byte(m.Payload), &got); err != nil {
				hear(event.Notice{All: true}) // of a version to come
			} else if got.From != s.self {
				hear(event.Notice{Runs: got.Runs, Signals: got.Signals})
			}
		}
	}
}
