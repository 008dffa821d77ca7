package storetest

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

var pageScenarios = []scenario{
	{"page-walk", "The pages of a list hold each item once, in order, each with the count of all.", pageWalk},
	{"page-limit", "A page has at most the greatest number of items, and that many if no number is given.", pageLimit},
	{"page-filtered", "Paging goes on under the filters it began with.", pageFiltered},
	{"page-equal-times", "Among a thousand sessions of one created time none is lost or repeated.", pageEqualTimes},
	{"page-equal-sequence-times", "Among a thousand messages of one created time none is lost or repeated.", pageEqualSequenceTimes},
	{"page-beside-writers", "What is added while pages are read disturbs none that was there before.", pageBesideWriters},
	{"page-beside-deletions", "What is deleted while pages are read, the last item of a page too, loses no other.", pageBesideDeletions},
	{"cursor-tampered", "A cursor that no list returned is refused.", cursorTampered},
	{"cursor-foreign", "A cursor of another query is refused.", cursorForeign},
}

// walk yields the items of all pages.
func walk[T any](b *bundle, p *store.Paging, list func() (*store.Page[T], error)) iter.Seq[T] {
	return func(yield func(T) bool) {
		for pages := 0; ; pages++ {
			require.Less(b, pages, 2000, "the pages never end")
			page, err := list()
			require.NoError(b, err)
			require.LessOrEqual(b, len(page.Items), p.Limit())
			for _, item := range page.Items {
				if !yield(item) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			require.NotEmpty(b, page.Items, "an empty page says that another follows")
			p.Page = page.Next
		}
	}
}

func walkSessions(b *bundle, q *store.SessionQuery) iter.Seq[store.Session] {
	return walk(b, &q.Paging, func() (*store.Page[store.Session], error) { return b.store.Sessions(b.ctx, q) })
}

func walkRuns(b *bundle, q *store.RunQuery) iter.Seq[store.Run] {
	return walk(b, &q.Paging, func() (*store.Page[store.Run], error) { return b.store.Runs(b.ctx, q) })
}

func walkCheckpoints(b *bundle, q *store.CheckpointQuery) iter.Seq[checkpoint.Checkpoint] {
	return walk(b, &q.Paging, func() (*store.Page[checkpoint.Checkpoint], error) { return b.store.Checkpoints(b.ctx, q) })
}

func walkMessages(b *bundle, q *store.MessageQuery) iter.Seq[store.Message] {
	return walk(b, &q.Paging, func() (*store.Page[store.Message], error) { return b.store.Messages(b.ctx, q) })
}

// sorted returns the values of a map by key.
func sorted[K cmp.Ordered, V any](m map[K]V) []V {
	out := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}

func pageWalk(b *bundle) {
	session := b.newSession()
	for i := range 10 {
		b.tick()
		b.whole(session, step(fmt.Sprint(i)))
		b.newSession()
	}
	for _, per := range []int{1, 3, 5, 10, 11, 100} {
		paging := store.Paging{PerPage: per}
		seqs := []int64{}
		for r := range walkRuns(b, &store.RunQuery{Tenant: tenant, Session: session, Paging: paging}) {
			seqs = append(seqs, r.Seq)
		}
		require.Len(b, seqs, 10)
		require.IsDecreasing(b, seqs)
		seqs = nil
		for c := range walkCheckpoints(b, &store.CheckpointQuery{Tenant: tenant, Session: session, Paging: paging}) {
			seqs = append(seqs, c.Seq)
		}
		require.Len(b, seqs, 10)
		require.IsDecreasing(b, seqs)
		seqs = nil
		for m := range walkMessages(b, &store.MessageQuery{Tenant: tenant, Session: session, Paging: paging}) {
			seqs = append(seqs, m.Seq)
		}
		require.Len(b, seqs, 10)
		require.IsDecreasing(b, seqs)
		times := []int64{}
		for s := range walkSessions(b, &store.SessionQuery{Tenant: tenant, Paging: paging}) {
			times = append(times, s.CreatedAt.UnixMilli())
		}
		require.Len(b, times, 11)
		require.IsDecreasing(b, times)
	}
	q := &store.RunQuery{Tenant: tenant, Session: session, Paging: store.Paging{PerPage: 4}}
	for _, want := range []int{4, 4, 2} {
		page, err := b.store.Runs(b.ctx, q)
		require.NoError(b, err)
		require.Len(b, page.Items, want)
		require.Equal(b, 10, page.Count)
		q.Page = page.Next
	}
	require.Empty(b, q.Page, "nothing follows the last page")
	q = &store.RunQuery{Tenant: tenant, Session: session, Paging: store.Paging{PerPage: 10}}
	page, err := b.store.Runs(b.ctx, q)
	require.NoError(b, err)
	require.Empty(b, page.Next, "nothing follows a page that is just full")
}

func pageLimit(b *bundle) {
	session := b.newSession()
	steps := []store.Step{}
	for range store.MaxPerPage + 1 {
		b.newSession()
		steps = append(steps, step("message"))
	}
	b.whole(session, steps...)
	for _, per := range []int{0, -1, store.MaxPerPage, store.MaxPerPage + 1, 1 << 30} {
		paging := store.Paging{PerPage: per}
		sessions, err := b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: tenant, Paging: paging})
		require.NoError(b, err)
		messages, err := b.store.Messages(b.ctx, &store.MessageQuery{Tenant: tenant, Session: session, Paging: paging})
		require.NoError(b, err)
		checkpoints, err := b.store.Checkpoints(b.ctx, &store.CheckpointQuery{Tenant: tenant, Session: session, Paging: paging})
		require.NoError(b, err)
		if per < 0 { // the nearest bound may be either
			require.NotEmpty(b, sessions.Items)
			require.NotEmpty(b, messages.Items)
			continue
		}
		require.Len(b, sessions.Items, store.MaxPerPage)
		require.Equal(b, store.MaxPerPage+2, sessions.Count)
		require.Len(b, messages.Items, store.MaxPerPage)
		require.Equal(b, store.MaxPerPage+1, messages.Count)
		require.Len(b, checkpoints.Items, store.MaxPerPage)
		require.NotEmpty(b, checkpoints.Next)
	}
}

func pageFiltered(b *bundle) {
	session := b.newSession()
	want := []uuid.UUID{}
	for i := range 12 {
		s := step("message")
		if i%3 == 0 {
			s.Messages[0].Role = message.RoleSystem
			want = append([]uuid.UUID{s.Messages[0].ID}, want...)
		}
		b.whole(session, s)
	}
	got := []uuid.UUID{}
	for m := range walkMessages(b, &store.MessageQuery{
		Tenant: tenant, Session: session, Roles: []message.Role{message.RoleSystem}, Paging: store.Paging{PerPage: 2},
	}) {
		got = append(got, m.ID)
	}
	require.Equal(b, want, got)
}

func pageEqualTimes(b *bundle) {
	want := map[uuid.UUID]bool{}
	for range 1000 {
		want[b.newSession()] = true
	}
	var last uuid.UUID
	for s := range walkSessions(b, &store.SessionQuery{Tenant: tenant, Paging: store.Paging{PerPage: 7}}) {
		require.True(b, want[s.ID], "a session that was there before, or never created")
		delete(want, s.ID)
		if last != uuid.Nil {
			require.Greater(b, last.String(), s.ID.String(), "equal times are listed by id")
		}
		last = s.ID
	}
	require.Empty(b, want, "sessions that were lost")
}

func pageEqualSequenceTimes(b *bundle) {
	session := b.newSession()
	s := step()
	want := map[uuid.UUID]bool{}
	for range 1000 {
		m := say("message")
		want[m.ID] = true
		s.Messages = append(s.Messages, m)
	}
	b.whole(session, s)
	seqs := []int64{}
	for m := range walkMessages(b, &store.MessageQuery{Tenant: tenant, Session: session, Paging: store.Paging{PerPage: 7}}) {
		require.True(b, want[m.ID], "a message that was there before, or never created")
		delete(want, m.ID)
		seqs = append(seqs, m.Seq)
	}
	require.Empty(b, want, "messages that were lost")
	require.IsDecreasing(b, seqs)
}

func pageBesideWriters(b *bundle) {
	session := b.newSession()
	old := map[uuid.UUID]bool{}
	sessions := map[uuid.UUID]bool{session: true}
	for range 20 {
		old[b.post(session, "old").ID] = true
		sessions[b.newSession()] = true
	}
	seen := map[uuid.UUID]bool{}
	for m := range walkMessages(b, &store.MessageQuery{Tenant: tenant, Session: session, Paging: store.Paging{PerPage: 3}}) {
		require.False(b, seen[m.ID], "a message that was there before")
		seen[m.ID] = true
		delete(old, m.ID)
		b.post(session, "new")
	}
	require.Empty(b, old, "messages that were lost")

	seen = map[uuid.UUID]bool{}
	for s := range walkSessions(b, &store.SessionQuery{Tenant: tenant, Paging: store.Paging{PerPage: 3}}) {
		require.False(b, seen[s.ID], "a session that was there before")
		seen[s.ID] = true
		delete(sessions, s.ID)
		b.tick()
		b.newSession()
	}
	require.Empty(b, sessions, "sessions that were lost")
}

func pageBesideDeletions(b *bundle) {
	session := b.newSession()
	want := []uuid.UUID{session}
	for range 10 {
		b.tick()
		b.post(session, "message")
		want = append(want, b.newSession())
	}
	slices.Reverse(want)
	read := 0
	for m := range walkMessages(b, &store.MessageQuery{Tenant: tenant, Session: session, Paging: store.Paging{PerPage: 3}}) {
		require.NoError(b, b.store.DeleteMessage(b.ctx, tenant, m.ID))
		read++
	}
	require.Equal(b, 10, read)
	got := []uuid.UUID{}
	for s := range walkSessions(b, &store.SessionQuery{Tenant: tenant, Paging: store.Paging{PerPage: 3}}) {
		require.NoError(b, b.store.DeleteSession(b.ctx, tenant, s.ID))
		got = append(got, s.ID)
	}
	require.Equal(b, want, got)
}

// cursor returns the cursor of the second page of a session's messages, and of the sessions.
func (b *bundle) cursor(session uuid.UUID) (messages, sessions string) {
	b.Helper()
	m, err := b.store.Messages(b.ctx, &store.MessageQuery{Tenant: tenant, Session: session, Paging: store.Paging{PerPage: 1}})
	require.NoError(b, err)
	s, err := b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: tenant, Paging: store.Paging{PerPage: 1}})
	require.NoError(b, err)
	require.NotEmpty(b, m.Next)
	require.NotEmpty(b, s.Next)
	return m.Next, s.Next
}

func cursorTampered(b *bundle) {
	session := b.newSession()
	b.whole(session, step("one"), step("two"))
	b.whole(session, step())
	b.newSession()
	messages, sessions := b.cursor(session)
	raw, err := base64.RawURLEncoding.DecodeString(messages)
	bad := []string{"x", "2026", "%", "' OR 1=1 --", "AAAA", messages + "A", messages[:len(messages)/2], messages[1:]}
	if err == nil && len(raw) > 3 {
		raw[3] ^= 1
		bad = append(bad, base64.RawURLEncoding.EncodeToString(raw))
	}
	for _, text := range append(bad, sessions+"A", sessions[:len(sessions)/2]) {
		paging := store.Paging{Page: text}
		_, err := b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: tenant, Paging: paging})
		require.ErrorIs(b, err, store.ErrBadCursor, "%q", text)
		_, err = b.store.Runs(b.ctx, &store.RunQuery{Tenant: tenant, Session: session, Paging: paging})
		require.ErrorIs(b, err, store.ErrBadCursor, "%q", text)
		_, err = b.store.Checkpoints(b.ctx, &store.CheckpointQuery{Tenant: tenant, Session: session, Paging: paging})
		require.ErrorIs(b, err, store.ErrBadCursor, "%q", text)
		_, err = b.store.Messages(b.ctx, &store.MessageQuery{Tenant: tenant, Session: session, Paging: paging})
		require.ErrorIs(b, err, store.ErrBadCursor, "%q", text)
	}
}

func cursorForeign(b *bundle) {
	session, other := b.newSession(), b.newSession()
	b.whole(session, step("one"), step("two"))
	b.whole(other, step("one"), step("two"))
	messages, sessions := b.cursor(session)
	for _, q := range []*store.MessageQuery{
		{Tenant: tenant, Session: other},
		{Tenant: tenant, Session: session, Roles: []message.Role{message.RoleUser}},
		{Tenant: tenant, Session: session, Created: store.TimeRange{Before: b.clock.Now()}},
	} {
		q.Page = messages
		_, err := b.store.Messages(b.ctx, q)
		require.ErrorIs(b, err, store.ErrBadCursor)
	}
	_, err := b.store.Checkpoints(b.ctx, &store.CheckpointQuery{Tenant: tenant, Session: session, Paging: store.Paging{Page: messages}})
	require.ErrorIs(b, err, store.ErrBadCursor)
	_, err = b.store.Messages(b.ctx, &store.MessageQuery{Tenant: tenant, Session: session, Paging: store.Paging{Page: sessions}})
	require.ErrorIs(b, err, store.ErrBadCursor)
	_, err = b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: "other", Paging: store.Paging{Page: sessions}})
	require.ErrorIs(b, err, store.ErrBadCursor)

	page, err := b.store.Messages(b.ctx, &store.MessageQuery{Tenant: tenant, Session: session, Paging: store.Paging{Page: messages, PerPage: 5}})
	require.NoError(b, err, "the number of items is not a filter")
	require.Equal(b, []string{"one"}, texts(b, page.Items))
}
