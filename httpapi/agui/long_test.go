package agui_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/agui"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

// A run on a thread of many messages, by a client that sends only what is new, beside the same on /v1.
func BenchmarkLongThread(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		for _, path := range []string{"/ag-ui", "/v1/runs"} {
			b.Run(fmt.Sprintf("%d messages%s", n, path), func(b *testing.B) {
				agent, err := react.New(react.Config{Name: "bench", Model: react.ModelFunc(parrot), Store: memory.New(nil), Logger: slog.New(slog.DiscardHandler)})
				require.NoError(b, err)
				mux := http.NewServeMux()
				mux.Handle("/", httpapi.New(agent, nil))
				mux.Handle("/ag-ui", agui.New(agent, nil))
				session := agui.SessionID("t")
				_, err = agent.CreateSession(b.Context(), "", session)
				require.NoError(b, err)
				for range n {
					_, err := agent.PostMessage(b.Context(), "", session, message.NewUser("What is the weather like in Oslo today, and what shall I wear?"))
					require.NoError(b, err)
				}
				b.ReportAllocs()
				for b.Loop() {
					body := `{"session_id":"` + session.String() + `","messages":[{"role":"user","content":"hello"}]}`
					if path == "/ag-ui" {
						body = `{"threadId":"t","protocolVersion":"1.0","messages":[{"id":"` + uuid.NewString() + `","role":"user","content":"hello"}]}`
					}
					r := httptest.NewRequest("POST", path, strings.NewReader(body))
					r.Header.Set("Content-Type", "application/json")
					w := httptest.NewRecorder()
					mux.ServeHTTP(w, r)
					require.Equal(b, 200, w.Code)
				}
			})
		}
	}
}
