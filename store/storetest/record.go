package storetest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/store"
)

var recordScenarios = []scenario{
	{"record-value", "A record is read as it was written, under its tenant, kind and key alone.", recordValue},
	{"record-version", "A record begins with version 1 and has one more with each write; one deleted begins anew.", recordVersion},
	{"record-expected", "A write that expects another version than the record has is refused and changes nothing.", recordExpected},
	{"record-atomic", "Several writes of a call happen all or not at all.", recordAtomic},
	{"record-list", "Records are listed by the bytes of their keys, in both directions, within a prefix and behind a key.", recordList},
	{"record-concurrent", "Of several writes at once that expect the same version one happens.", recordConcurrent},
	{"record-copies", "What is passed to a record and returned from it belongs to the caller.", recordCopies},
}

// records returns the store's records; the case is skipped if it has none.
func (b *bundle) records() store.Records {
	b.Helper()
	r, ok := b.store.(store.Records)
	if !ok {
		b.Skip("the store has no records")
	}
	return r
}

func put(key, value string, version int64) store.RecordWrite {
	return store.RecordWrite{Kind: "kind", Key: key, Value: []byte(value), Version: version}
}

func drop(key string, version int64) store.RecordWrite {
	return store.RecordWrite{Kind: "kind", Key: key, Version: version, Delete: true}
}

func (b *bundle) write(writes ...store.RecordWrite) error {
	b.Helper()
	return b.records().WriteRecords(b.ctx, tenant, writes)
}

// record returns a record as "version value", empty if there is none.
func (b *bundle) record(key string) string {
	b.Helper()
	r, err := b.records().Record(b.ctx, tenant, "kind", key)
	if err != nil {
		require.ErrorIs(b, err, store.ErrNotFound)
		return ""
	}
	require.Equal(b, "kind", r.Kind)
	require.Equal(b, key, r.Key)
	return fmt.Sprintf("%d %s", r.Version, r.Value)
}

func recordValue(b *bundle) {
	values := map[string]string{"a": "one", "ä/ö?%_": "\x00\xff bytes", "empty": ""}
	for key, value := range values {
		require.NoError(b, b.write(put(key, value, 0)))
	}
	b.reopen()
	for key, value := range values {
		require.Equal(b, "1 "+value, b.record(key))
	}
	for _, other := range [][3]string{{"globex", "kind", "a"}, {tenant, "other", "a"}, {tenant, "kind", "A"}, {tenant, "kind", "a "}} {
		_, err := b.records().Record(b.ctx, other[0], other[1], other[2])
		require.ErrorIs(b, err, store.ErrNotFound, "%v", other)
	}
	list, err := b.records().ListRecords(b.ctx, &store.RecordQuery{Tenant: "globex", Kind: "kind"})
	require.NoError(b, err)
	require.Empty(b, list)
	require.NoError(b, b.records().WriteRecords(b.ctx, "globex", []store.RecordWrite{put("a", "theirs", 0)}))
	require.Equal(b, "1 one", b.record("a"))
}

func recordVersion(b *bundle) {
	for v := range int64(3) {
		require.NoError(b, b.write(put("a", fmt.Sprint(v), v)))
		require.Equal(b, fmt.Sprintf("%d %d", v+1, v), b.record("a"))
	}
	require.NoError(b, b.write(drop("a", 3)))
	require.Empty(b, b.record("a"))
	require.NoError(b, b.write(drop("a", 0)), "a record that is to be absent and is")
	require.NoError(b, b.write(put("a", "new", 0)))
	require.Equal(b, "1 new", b.record("a"))
}

func recordExpected(b *bundle) {
	require.NoError(b, b.write(put("a", "one", 0)))
	require.NoError(b, b.write(put("a", "two", 1)))
	for _, w := range []store.RecordWrite{
		put("a", "x", 0), put("a", "x", 1), put("a", "x", 3), drop("a", 0), drop("a", 1), put("none", "x", 1), drop("none", 1),
	} {
		require.ErrorIs(b, b.write(w), store.ErrConflict, "%+v", w)
	}
	require.Equal(b, "2 two", b.record("a"))
	require.Empty(b, b.record("none"))
}

func recordAtomic(b *bundle) {
	require.NoError(b, b.write(put("a", "one", 0), put("b", "one", 0), put("c", "one", 0)))
	require.ErrorIs(b, b.write(put("a", "two", 1), put("new", "x", 0), drop("c", 1), put("b", "two", 0)), store.ErrConflict)
	b.reopen()
	require.Equal(b, []string{"1 one", "1 one", "1 one", ""}, []string{b.record("a"), b.record("b"), b.record("c"), b.record("new")})
	require.NoError(b, b.write(put("a", "two", 1), put("new", "x", 0), drop("c", 1)))
	b.reopen()
	require.Equal(b, []string{"2 two", "1 one", "", "1 x"}, []string{b.record("a"), b.record("b"), b.record("c"), b.record("new")})
}

func recordList(b *bundle) {
	keys := []string{"Z", "a", "a/1", "a/10", "a/2", "a/\xc3\xa4", "a0", "b"}
	for i := range keys {
		require.NoError(b, b.write(put(keys[len(keys)-1-i], keys[len(keys)-1-i], 0)))
	}
	require.NoError(b, b.records().WriteRecords(b.ctx, tenant, []store.RecordWrite{{Kind: "other", Key: "a/3"}}))
	for _, tt := range []struct {
		query store.RecordQuery
		want  string
	}{
		{store.RecordQuery{}, "Z a a/1 a/10 a/2 a/ä a0 b"},
		{store.RecordQuery{Descending: true}, "b a0 a/ä a/2 a/10 a/1 a Z"},
		{store.RecordQuery{Limit: 2}, "Z a"},
		{store.RecordQuery{Limit: 2, Descending: true}, "b a0"},
		{store.RecordQuery{Prefix: "a/"}, "a/1 a/10 a/2 a/ä"},
		{store.RecordQuery{Prefix: "a/", Descending: true}, "a/ä a/2 a/10 a/1"},
		{store.RecordQuery{Prefix: "a/", After: "a/10"}, "a/2 a/ä"},
		{store.RecordQuery{Prefix: "a/", After: "a/11"}, "a/2 a/ä"},
		{store.RecordQuery{Prefix: "a/", After: "a/10", Descending: true}, "a/1"},
		{store.RecordQuery{Prefix: "a/", After: "a/11", Descending: true, Limit: 1}, "a/10"},
		{store.RecordQuery{Prefix: "a/", After: "Z"}, "a/1 a/10 a/2 a/ä"},
		{store.RecordQuery{Prefix: "a/", After: "zz", Descending: true}, "a/ä a/2 a/10 a/1"},
		{store.RecordQuery{Prefix: "a/", After: "zz"}, ""},
		{store.RecordQuery{Prefix: "none"}, ""},
	} {
		q := tt.query
		q.Tenant, q.Kind = tenant, "kind"
		list, err := b.records().ListRecords(b.ctx, &q)
		require.NoError(b, err)
		var got []string
		for _, r := range list {
			require.Equal(b, "kind", r.Kind)
			require.Equal(b, r.Key, string(r.Value))
			require.Equal(b, int64(1), r.Version)
			got = append(got, r.Key)
		}
		require.Equal(b, tt.want, strings.Join(got, " "), "%+v", tt.query)
	}
}

func recordConcurrent(b *bundle) {
	const writers, rounds = 8, 10
	for v := range int64(rounds) {
		var won atomic.Int64
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				if b.records().WriteRecords(b.ctx, tenant, []store.RecordWrite{put("a", "x", v), put("b", "x", v)}) == nil {
					won.Add(1)
				}
			})
		}
		all.Wait()
		require.Equal(b, int64(1), won.Load())
	}
	require.Equal(b, fmt.Sprintf("%d x", rounds), b.record("b"))
}

func recordCopies(b *bundle) {
	value := []byte("value")
	require.NoError(b, b.write(store.RecordWrite{Kind: "kind", Key: "a", Value: value}))
	value[0] = 'X'
	r, err := b.records().Record(b.ctx, tenant, "kind", "a")
	require.NoError(b, err)
	r.Value[1] = 'X'
	list, err := b.records().ListRecords(b.ctx, &store.RecordQuery{Tenant: tenant, Kind: "kind"})
	require.NoError(b, err)
	list[0].Value[2] = 'X'
	require.Equal(b, "1 value", b.record("a"))
}
