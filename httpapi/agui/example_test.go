package agui_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/agui"
	"github.com/everstep-go/everstep/httpapi/agui/aguitest"
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
	mux.Handle("/ag-ui", agui.New(agent, nil))
	server := httptest.NewServer(mux)
	defer server.Close()

	// What an HttpAgent of @ag-ui/client sends.
	res, err := http.Post(server.URL+"/ag-ui", "application/json",
		strings.NewReader(`{"threadId":"thread-1","runId":"run-1","protocolVersion":"1.0","messages":[{"id":"1","role":"user","content":"Hello"}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	for e, err := range aguitest.Events(res.Body, aguitest.V1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(strings.TrimSpace(e.Type() + " " + e.Text("delta")))
	}

	res, err = http.Get(server.URL + "/v1/sessions/" + agui.SessionID("thread-1").String())
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	fmt.Println(res.Status)
	// Output:
	// RUN_STARTED
	// STEP_STARTED
	// STATE_SNAPSHOT
	// STEP_FINISHED
	// STEP_STARTED
	// TEXT_MESSAGE_START
	// TEXT_MESSAGE_CONTENT Hello
	// TEXT_MESSAGE_END
	// STEP_FINISHED
	// STEP_STARTED
	// MESSAGES_SNAPSHOT
	// STEP_FINISHED
	// RUN_FINISHED
	// 200 OK
}
