package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/store/sqlite"
)

// frozen is a clock that stands still, so that everything has the same time.
func frozen() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC) }

func stores(t *testing.T) map[string]store.Store {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "test.db"), &sqlite.Options{Now: frozen, Synchronous: sqlite.Normal})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return map[string]store.Store{"memory": memory.New(&memory.Options{Now: frozen}), "sqlite": db}
}

func TestAListOfAThousandRowsOfOneTimeIsReadWithoutLossAndWithoutRepetition(t *testing.T) {
	t.Parallel()
	for name, st := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, func(s *setup) { s.Store = st })
			session := uuid.New()
			_, err := b.agent.CreateSession(t.Context(), "", session)
			require.NoError(t, err)
			var want []string
			for i := range 1000 {
				m, err := b.agent.PostMessage(t.Context(), "", session, message.NewUser(fmt.Sprint(i)))
				require.NoError(t, err)
				want = append(want, m.Head().ID.String())
			}
			slices.Reverse(want)
			path := "/v1/sessions/" + session.String() + "/messages"
			for _, perPage := range []int{100, 7, 99} {
				var got []string
				cursor := ""
				for pages := 0; ; pages++ {
					require.Less(t, pages, 1000, "it comes to an end")
					page := b.list(fmt.Sprintf("%s?per_page=%d%s", path, perPage, cursor))
					assert.Equal(t, 1000, page.Count)
					if page.Next != nil {
						assert.Len(t, page.Items, perPage)
					}
					got = append(got, page.ids()...)
					if page.Next == nil {
						break
					}
					cursor = "&page=" + url.QueryEscape(*page.Next)
				}
				require.Equal(t, want, got, "newest first, each once")
			}
			assert.Len(t, b.list(path).Items, 100, "which is the default")

			// Sessions have no sequence: of one time the ids decide.
			for range 250 {
				_, err := b.agent.CreateSession(t.Context(), "", uuid.New())
				require.NoError(t, err)
			}
			seen := map[string]bool{}
			for cursor := ""; ; {
				page := b.list("/v1/sessions?per_page=100" + cursor)
				for _, id := range page.ids() {
					require.False(t, seen[id])
					seen[id] = true
				}
				if page.Next == nil {
					break
				}
				cursor = "&page=" + url.QueryEscape(*page.Next)
			}
			assert.Len(t, seen, 251)
		})
	}
}

func TestACursorIsOnlyGoodForTheListItCameFrom(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	var paths []string
	for range 2 {
		session := decode[object](t, b.post("/v1/sessions", `{}`))["id"].(string)
		for range 3 {
			b.post("/v1/sessions/"+session+"/messages", `{"role":"user","content":"x"}`)
		}
		paths = append(paths, "/v1/sessions/"+session)
	}
	next := *b.list(paths[0] + "/messages?per_page=1").Next
	cursor := url.QueryEscape(next)
	assert.Len(t, b.list(paths[0]+"/messages?per_page=2&page="+cursor).Items, 2, "the number of items may change")
	for name, path := range map[string]string{
		"another session":  paths[1] + "/messages?page=" + cursor,
		"another list":     paths[0] + "/runs?page=" + cursor,
		"sessions":         "/v1/sessions?page=" + cursor,
		"another filter":   paths[0] + "/messages?roles[]=user&page=" + cursor,
		"a letter less":    paths[0] + "/messages?page=" + url.QueryEscape(next[1:]),
		"a letter more":    paths[0] + "/messages?page=A" + cursor,
		"something else":   paths[0] + "/messages?page=" + base64.RawURLEncoding.EncodeToString([]byte("hello")),
		"a very long one":  paths[0] + "/messages?page=" + string(slices.Repeat([]byte("A"), 5000)),
		"what is no text":  paths[0] + "/messages?page=%00%ff",
		"a changed letter": paths[0] + "/messages?page=" + url.QueryEscape(flip(next)),
	} {
		assert.Equal(t, 400000, b.get(path).code(t), name)
	}
	assert.Equal(t, 400000, b.get(paths[0]+"/messages?page="+cursor+"x").code(t))
}

// flip changes the first letter.
func flip(s string) string {
	if s[0] == 'A' {
		return "B" + s[1:]
	}
	return "A" + s[1:]
}

func TestFiltersSelect(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	first := b.detached(says("call greet {\"name\":\"x\"}", object{"session_id": uuid.New()}))
	require.Equal(t, "completed", b.status(first.Run))
	second := b.detached(says("call ask {\"name\":\"x\"}", object{"session_id": first.Session}))
	require.Equal(t, "interrupted", b.status(second.Run))
	elsewhere := b.detached(says("hi"))
	b.status(elsewhere.Run)
	session := "/v1/sessions/" + first.Session.String()

	messages := b.list(session + "/messages")
	require.Equal(t, 6, messages.Count)
	checkpoints := b.list(session + "/checkpoints")
	runs := b.list(session + "/runs")
	require.Equal(t, []string{second.Run.String(), first.Run.String()}, runs.ids(), "newest first")
	byRole := map[string][]string{}
	byCheckpoint := map[string][]string{}
	byRun := map[string][]string{}
	for _, m := range messages.Items {
		id := m["id"].(string)
		byRole[m["role"].(string)] = append(byRole[m["role"].(string)], id)
		byCheckpoint[m["checkpoint_id"].(string)] = append(byCheckpoint[m["checkpoint_id"].(string)], id)
		if run, ok := m["run_id"].(string); ok {
			byRun[run] = append(byRun[run], id)
		}
	}
	a, z := messages.ids()[5], messages.ids()[0]
	someCheckpoint := messages.Items[0]["checkpoint_id"].(string)
	mine := b.list("/v1/sessions?ids=" + first.Session.String())
	require.Equal(t, 1, mine.Count)
	created, updated := mine.Items[0]["created_at"].(string), mine.Items[0]["updated_at"].(string)
	both := []string{elsewhere.Session.String(), first.Session.String()}
	far := "2999-01-01T00:00:00Z"

	for query, want := range map[string][]string{
		"/v1/sessions": both,
		"/v1/sessions?ids[]=" + both[1] + "&ids[]=" + both[0]:          both,
		"/v1/sessions?ids[0]=" + both[1] + "&ids[1]=" + both[0]:        both,
		"/v1/sessions?ids=" + both[1] + "&ids=" + both[0]:              both,
		"/v1/sessions?ids%5B%5D=" + both[0]:                            both[:1],
		"/v1/sessions?ids[]=" + missing:                                {},
		"/v1/sessions?created_before=" + created:                       both[1:],
		"/v1/sessions?created_after=" + created:                        both,
		"/v1/sessions?updated_before=" + updated:                       both[1:],
		"/v1/sessions?updated_after=" + far:                            {},
		"/v1/sessions?created_after=" + far + "&ids[]=" + both[0]:      {},
		"/v1/sessions?created_before=2999-01-01T02:00:00%2B02:00":      both,
		"/v1/sessions?what[]=x&ever=y":                                 both,
		session + "/messages?ids[]=" + a + "&ids[]=" + z:               {z, a},
		session + "/messages?roles[]=user":                             byRole["user"],
		session + "/messages?roles=tool&roles=assistant":               {messages.ids()[0], messages.ids()[2], messages.ids()[3], messages.ids()[4]},
		session + "/messages?roles=reasoning":                          {},
		session + "/messages?run_ids[]=" + first.Run.String():          byRun[first.Run.String()],
		session + "/messages?checkpoint_ids[]=" + someCheckpoint:       byCheckpoint[someCheckpoint],
		session + "/messages?checkpoint_ids[]=" + missing:              {},
		session + "/messages?created_after=" + far:                     {},
		session + "/messages?created_before=" + far + "&ids=" + a:      {a},
		session + "/runs?ids=" + first.Run.String():                    {first.Run.String()},
		session + "/runs?statuses[]=interrupted":                       {second.Run.String()},
		session + "/runs?statuses[]=interrupted&statuses[]=completed":  runs.ids(),
		session + "/runs?statuses[]=running":                           {},
		session + "/runs?session_ids[]=" + first.Session.String():      runs.ids(),
		session + "/runs?session_ids[]=" + elsewhere.Session.String():  {},
		session + "/runs?created_after=" + far:                         {},
		session + "/runs?updated_before=" + far:                        runs.ids(),
		session + "/checkpoints?ids=" + checkpoints.ids()[3]:           checkpoints.ids()[3:4],
		session + "/checkpoints?run_ids=" + first.Run.String():         checkpoints.ids()[len(checkpoints.Items)-7:],
		session + "/checkpoints?reasons[]=interrupt":                   checkpoints.ids()[:1],
		session + "/checkpoints?statuses[]=completed&reasons[]=finish": checkpoints.ids()[len(checkpoints.Items)-7 : len(checkpoints.Items)-6],
		session + "/checkpoints?statuses[]=interrupted":                checkpoints.ids()[:1],
		session + "/checkpoints?created_after=" + far:                  {},
	} {
		if want == nil {
			want = []string{}
		}
		a := b.get(query)
		require.Equal(t, http.StatusOK, a.status, "%s: %s", query, a.body)
		page := decode[items](t, a)
		assert.Equal(t, want, page.ids(), query)
		assert.Equal(t, len(want), page.Count, query)
		assert.Nil(t, page.Next, query)
	}
	// Both ends of a time range belong to it.
	at := url.QueryEscape(created)
	assert.Contains(t, b.list("/v1/sessions?created_after="+at+"&created_before="+at).ids(), both[1])
	assert.JSONEq(t, `{"items":[],"count":0,"next_page":null}`, string(b.get("/v1/sessions?ids="+missing).body))
}
