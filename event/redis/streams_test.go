package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/redisserver/redistest"
)

func newStreams(t *testing.T, bytes int) *streams {
	client := goredis.NewClient(&goredis.Options{Addr: redistest.Start(t).Addr()})
	t.Cleanup(func() { client.Close() })
	return &streams{client: client, opts: Options{Prefix: "p:", Bytes: bytes, Keep: time.Minute, MaxAge: time.Hour}}
}

func piece(run uuid.UUID, first, last int64, size int) event.Chunk {
	return event.Chunk{Tenant: "t", Session: uuid.Max, Run: run, First: first, Last: last, Body: []byte(strings.Repeat("x", size))}
}

func (s *streams) firsts(t *testing.T, run uuid.UUID, after int64) (got []int64) {
	chunks, err := s.Read(t.Context(), []event.Position{{Tenant: "other", Run: run}, {Tenant: "t", Run: run, After: after}})
	require.NoError(t, err)
	for _, c := range chunks {
		got = append(got, c.First)
	}
	return got
}

func TestChunksComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	s := newStreams(t, 1000)
	run := uuid.New()
	want := []event.Chunk{piece(run, 1, 2, 3), piece(run, 3, 3, 4), piece(run, 1<<52, 1<<52+1, 5)}
	want[2].Ended = true
	want[0].Body = []byte("\x00\r\n\xff")
	require.NoError(t, s.Append(t.Context(), want, nil))
	got, err := s.Read(t.Context(), []event.Position{{Tenant: "t", Run: run}})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, []int64{3, 1 << 52}, s.firsts(t, run, 1))
	require.Equal(t, []int64{1 << 52}, s.firsts(t, run, 3))
	require.Empty(t, s.firsts(t, run, 1<<52))
}

func TestWhatIsThereAlreadyIsNotAdded(t *testing.T) {
	t.Parallel()
	s := newStreams(t, 1000)
	run := uuid.New()
	twice := []event.Chunk{piece(run, 1, 2, 3), piece(run, 3, 5, 3)}
	require.NoError(t, s.Append(t.Context(), twice, nil))
	require.NoError(t, s.Append(t.Context(), append(twice, piece(run, 6, 6, 3)), nil))
	require.Equal(t, []int64{1, 3, 6}, s.firsts(t, run, 0))
	// A former owner of the run, whose successor has begun.
	require.NoError(t, s.Append(t.Context(), []event.Chunk{piece(run, 1<<40, 1<<40, 3), piece(run, 7, 9, 3), piece(run, 1<<40, 1<<40+1, 3)}, nil))
	require.Equal(t, []int64{1, 3, 6, 1 << 40}, s.firsts(t, run, 0))
	end := piece(run, 1<<40+1, 1<<40+1, 1)
	end.Ended = true
	require.NoError(t, s.Append(t.Context(), []event.Chunk{end, piece(run, 1<<41, 1<<41, 1)}, nil))
	require.Equal(t, []int64{1, 3, 6, 1 << 40, 1<<40 + 1}, s.firsts(t, run, 0))
}

func TestAStreamKeepsItsNewestBytes(t *testing.T) {
	t.Parallel()
	s := newStreams(t, 5*(200+128))
	run := uuid.New()
	for n := range int64(20) {
		require.NoError(t, s.Append(t.Context(), []event.Chunk{piece(run, n+1, n+1, 200)}, nil))
	}
	require.Equal(t, []int64{16, 17, 18, 19, 20}, s.firsts(t, run, 0), "exactly the bytes that there is room for")
	require.NoError(t, s.Append(t.Context(), []event.Chunk{piece(run, 21, 21, 201)}, nil))
	require.Equal(t, []int64{18, 19, 20, 21}, s.firsts(t, run, 0))
	require.NoError(t, s.Append(t.Context(), []event.Chunk{piece(run, 22, 22, 5000)}, nil))
	require.Equal(t, []int64{22}, s.firsts(t, run, 0), "the newest is kept, however large")
	require.NoError(t, s.Append(t.Context(), []event.Chunk{piece(run, 23, 23, 1)}, nil))
	require.Equal(t, []int64{23}, s.firsts(t, run, 0))
}

func TestStreamsGoByThemselves(t *testing.T) {
	t.Parallel()
	s := newStreams(t, 1000)
	run := uuid.New()
	left := func() time.Duration {
		keys, err := s.client.Keys(t.Context(), "*").Result()
		require.NoError(t, err)
		require.Equal(t, []string{"p:run:" + run.String() + ":t"}, keys)
		d, err := s.client.PTTL(t.Context(), keys[0]).Result()
		require.NoError(t, err)
		return d
	}
	require.NoError(t, s.Append(t.Context(), []event.Chunk{piece(run, 1, 1, 1)}, nil))
	require.InDelta(t, time.Hour, left(), float64(time.Minute))
	end := piece(run, 2, 2, 1)
	end.Ended = true
	require.NoError(t, s.Append(t.Context(), []event.Chunk{end}, nil))
	require.LessOrEqual(t, left(), time.Minute)
	require.Positive(t, left())
}

func TestEntriesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	s := newStreams(t, 1000)
	run := uuid.New()
	require.NoError(t, s.client.Do(t.Context(), "XADD", s.key("t", run), "1-0", "last", "soon").Err())
	_, err := s.Read(t.Context(), []event.Position{{Tenant: "t", Run: run}})
	require.ErrorContains(t, err, "entry 1-0 of run "+run.String())
}
