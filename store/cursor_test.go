package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

func TestCursorComesBackAsItWas(t *testing.T) {
	t.Parallel()
	session := uuid.New()
	for _, want := range []store.Cursor{
		{},
		{Seq: 1},
		{Seq: 1 << 62, ID: uuid.Max},
		{Created: time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC), ID: uuid.New()},
		{Created: time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		for _, query := range []any{
			&store.SessionQuery{Tenant: "t"},
			&store.RunQuery{Tenant: "t", Session: session},
			&store.CheckpointQuery{Tenant: "t", Session: session},
			&store.MessageQuery{Tenant: "t", Session: session},
		} {
			got, ok, err := store.DecodeCursor(query, store.EncodeCursor(query, want))
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, want, got)
		}
	}
}

func TestCursorIsFitForAURL(t *testing.T) {
	t.Parallel()
	text := store.EncodeCursor(&store.SessionQuery{}, store.Cursor{Created: time.Now(), ID: uuid.New()})
	require.Regexp(t, `^[A-Za-z0-9_-]+$`, text)
}

func TestNoCursorIsTheFirstPage(t *testing.T) {
	t.Parallel()
	got, ok, err := store.DecodeCursor(&store.RunQuery{}, "")
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, got)
}

func TestCursorRefusesAChangedFilter(t *testing.T) {
	t.Parallel()
	one, other := uuid.New(), uuid.New()
	now := time.Now()
	queries := []any{
		&store.SessionQuery{Tenant: "t"},
		&store.SessionQuery{Tenant: "u"},
		&store.SessionQuery{Tenant: "t", IDs: []uuid.UUID{one}},
		&store.SessionQuery{Tenant: "t", Created: store.TimeRange{After: now}},
		&store.SessionQuery{Tenant: "t", Created: store.TimeRange{Before: now}},
		&store.SessionQuery{Tenant: "t", Updated: store.TimeRange{After: now}},
		&store.RunQuery{Tenant: "t", Session: one},
		&store.RunQuery{Tenant: "t", Session: other},
		&store.RunQuery{Tenant: "t", Session: one, IDs: []uuid.UUID{one}},
		&store.RunQuery{Tenant: "t", Session: one, Statuses: []checkpoint.Status{checkpoint.Failed}},
		&store.CheckpointQuery{Tenant: "t", Session: one},
		&store.CheckpointQuery{Tenant: "t", Session: one, Runs: []uuid.UUID{other}},
		&store.CheckpointQuery{Tenant: "t", Session: one, Reasons: []checkpoint.Reason{checkpoint.Step}},
		&store.MessageQuery{Tenant: "t", Session: one},
		&store.MessageQuery{Tenant: "t", Session: one, Checkpoints: []uuid.UUID{other}},
		&store.MessageQuery{Tenant: "t", Session: one, Roles: []message.Role{message.RoleUser}},
		&store.MessageQuery{Tenant: "t", Session: one, Roles: []message.Role{message.RoleUser, message.RoleTool}},
	}
	for i, made := range queries {
		text := store.EncodeCursor(made, store.Cursor{Seq: 7})
		for j, asked := range queries {
			_, _, err := store.DecodeCursor(asked, text)
			if i == j {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, store.ErrBadCursor, "made for %+v, asked with %+v", made, asked)
		}
	}
}

func TestCursorDoesNotMindThePaging(t *testing.T) {
	t.Parallel()
	text := store.EncodeCursor(&store.RunQuery{Tenant: "t"}, store.Cursor{Seq: 7})
	for _, paging := range []store.Paging{{}, {PerPage: 5}, {Page: text}, {PerPage: 1, Page: text}} {
		got, ok, err := store.DecodeCursor(&store.RunQuery{Tenant: "t", Paging: paging}, text)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, int64(7), got.Seq)
	}
}

func TestCursorRefusesWhatItDidNotMake(t *testing.T) {
	t.Parallel()
	query := &store.SessionQuery{Tenant: "t"}
	text := store.EncodeCursor(query, store.Cursor{Seq: 7, ID: uuid.New()})
	for _, bad := range []string{"x", "=", "%00", "not base64!", "AQ", text + "A", text + "AAAA", "AA" + text[2:], strings.Repeat("A", 10_000)} {
		_, _, err := store.DecodeCursor(query, bad)
		require.ErrorIs(t, err, store.ErrBadCursor, "%q", bad)
	}
	for n := 1; n < len(text); n++ {
		_, _, err := store.DecodeCursor(query, text[:n])
		require.ErrorIs(t, err, store.ErrBadCursor, "cut after %d characters", n)
	}
}

func FuzzDecodeCursorNeverPanics(f *testing.F) {
	query := &store.RunQuery{Tenant: "t"}
	f.Add("")
	f.Add("AQ")
	f.Add(store.EncodeCursor(query, store.Cursor{Seq: 7}))
	f.Fuzz(func(t *testing.T, text string) {
		c, ok, err := store.DecodeCursor(query, text)
		if err != nil {
			require.ErrorIs(t, err, store.ErrBadCursor)
			return
		}
		if !ok {
			require.Empty(t, text)
			return
		}
		again, _, err := store.DecodeCursor(query, store.EncodeCursor(query, c))
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}

func TestACursorGoesWithItsFiltersHoweverTheyAreSpelled(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	one := &store.RunQuery{Tenant: "a", Created: store.TimeRange{After: at}}
	same := &store.RunQuery{Tenant: "a", Created: store.TimeRange{After: at.In(time.FixedZone("x", 3600))}, IDs: []uuid.UUID{}, Paging: store.Paging{PerPage: 3}}
	other := &store.RunQuery{Tenant: "a", Created: store.TimeRange{Before: at}}
	text := store.EncodeCursor(one, store.Cursor{Seq: 7})
	c, ok, err := store.DecodeCursor(same, text)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, int64(7), c.Seq)
	_, _, err = store.DecodeCursor(other, text)
	require.ErrorIs(t, err, store.ErrBadCursor)
}
