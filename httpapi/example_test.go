package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

// parrot is a model that says what it hears.
func parrot(_ context.Context, req *message.Request) (message.Reply, error) {
	last := req.Messages[len(req.Messages)-1].(*message.User)
	return message.Reply{Text: last.Text(), FinishReason: message.FinishStop}, nil
}

func Example() {
	agent, err := react.New(react.Config{Name: "parrot", Model: react.ModelFunc(parrot), Store: memory.New(nil)})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", httpapi.New(agent, nil))
	server := httptest.NewServer(mux)
	defer server.Close()

	const session = "0199d8a4-0000-4000-8000-000000000001"
	res, err := http.Post(server.URL+"/v1/runs", "application/json",
		strings.NewReader(`{"session_id":"`+session+`","messages":[{"role":"user","content":"Hello"}]}`))
	if err != nil {
		log.Fatal(err)
	}
	stream, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(stream)) {
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			fmt.Print(event)
		}
	}
	// Output:
	// run_started
	// state_snapshot
	// text_message_start
	// text_message_content
	// text_message_end
	// messages_snapshot
	// run_finished
}

// The tenant of a request is what its credentials say.
func ExampleOptions() {
	agent, err := react.New(react.Config{Name: "parrot", Model: react.ModelFunc(parrot), Store: memory.New(nil)})
	if err != nil {
		log.Fatal(err)
	}
	handler := httpapi.New(agent, &httpapi.Options{
		Tenant: func(r *http.Request) (string, error) {
			user, password, ok := r.BasicAuth()
			if !ok {
				return "", &httpapi.Error{Code: 401000, Message: "log in"}
			}
			if password != "open sesame" {
				return "", errors.New("wrong password of " + user) // 403000, and this text in the log
			}
			return user, nil
		},
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/v1/sessions", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 401 {"code":401000,"message":"log in"}
}
