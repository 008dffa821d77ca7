package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/pgserver"
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
)

// The databases in testdata are dumps of what a server of that time left behind when it was killed. In session 1
// the user set the city to Lisbon and then to Porto, and last asked once more from before that, as a branch.
// Session 2 waits for an answer. Of session 3, run 31 was in the middle of its second round of tools,
// and run 32 waited for it. New versions of the schema get a dump of their own beside these.
func TestADatabaseOfAnOlderVersionGoesOn(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]func(t *testing.T, dir, dump string) (store string){
		"sqlite-schema1.sql": func(t *testing.T, dir, dump string) string {
			db, err := sql.Open("sqlite3", filepath.Join(dir, "old.db"))
			require.NoError(t, err)
			_, err = db.ExecContext(t.Context(), dump)
			require.NoError(t, err)
			require.NoError(t, db.Close())
			return "sqlite:old.db"
		},
		"postgres-schema3.sql": func(t *testing.T, _, dump string) string {
			server := pgtest.Start(t, &pgserver.Options{})
			require.NoError(t, server.CreateDatabase(t.Context(), "old"))
			address := fmt.Sprintf("postgres://postgres@/old?host=%s&port=%d&sslmode=disable", url.QueryEscape(server.Socket()), server.Port())
			conn, err := pgx.Connect(t.Context(), address)
			require.NoError(t, err)
			defer conn.Close(context.WithoutCancel(t.Context()))
			_, err = conn.Exec(t.Context(), dump, pgx.QueryExecModeSimpleProtocol)
			require.NoError(t, err)
			return address
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dump, err := os.ReadFile(filepath.Join("testdata", name))
			require.NoError(t, err)
			dir := t.TempDir()
			s := start(t, dir, "-store", restore(t, dir, string(dump)))
			id := func(n int) uuid.UUID { return uuid.MustParse(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

			var sessions struct{ Count int }
			s.call(http.StatusOK, "GET", "/v1/sessions", nil, &sessions)
			require.Equal(t, 3, sessions.Count)
			var said []any
			for _, m := range s.messages(id(1), "?roles=assistant&roles=tool") {
				said = append(said, m.Content)
			}
			require.Equal(t, []any{
				nil, "3", "ok", "add: 3\nremember: ok",
				nil, "ok", "no luck", "remember: ok\nfail: error: no luck",
				"You said: another way",
			}, said)

			end := last[event.RunFinished](t, s.run(script(id(1), `/call remember {"key":"sea","value":"Atlantic"}`)))
			require.JSONEq(t, `{"city":"Lisbon","sea":"Atlantic"}`, string(end.Result))
			end = last[event.RunFinished](t, s.run(object{"session_id": id(2), "resume_payload": "this one"}))
			require.EqualValues(t, "completed", end.Status)
			answers := s.messages(id(2), "?roles=assistant")
			require.Equal(t, "ask: this one", answers[len(answers)-1].Content)

			for n, want := range map[int][]any{31: {nil, "done before", nil, "slept 1500 ms", "and done after"}, 32: {"my turn"}} {
				run := id(n).String()
				end = last[event.RunFinished](t, s.rest(s.observe("/v1/runs/"+run)))
				require.EqualValues(t, "completed", end.Status)
				var got []any
				for _, m := range s.messages(id(3), "?roles=assistant&roles=tool&run_ids="+run) {
					got = append(got, m.Content)
				}
				require.Equal(t, want, got)
			}
		})
	}
}
