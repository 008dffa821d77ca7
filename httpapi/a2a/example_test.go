package a2a_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/everstep-go/everstep/httpapi/a2a"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store/memory"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	// One agent is served.
	planner, err := react.New(react.Config{
		Name: "planner", Description: "Plans trips.", Store: memory.New(nil),
		Model: reacttest.NewScript(reacttest.Say("Three days in Oslo.")),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer planner.Shutdown(ctx)
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	defer web.Close()
	server, err := a2a.NewServer(planner, a2a.ServerConfig{URL: web.URL + "/a2a", Card: func(card *sdk.AgentCard) {
		card.Skills = []sdk.AgentSkill{{ID: "trip", Name: "Trips", Description: "Plans a trip.", Tags: []string{"travel"}}}
	}})
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/a2a/", http.StripPrefix("/a2a", server))
	mux.Handle(a2a.WellKnown, server)
	go server.Serve(ctx)

	// Another one has it as tools.
	client, err := a2a.Connect(ctx, a2a.Config{Name: "planner", URL: web.URL})
	if err != nil {
		log.Fatal(err)
	}
	clerk, err := react.New(react.Config{
		Name: "clerk", Tools: client.Tools(), Store: memory.New(nil),
		Model: reacttest.NewScript(
			reacttest.Call(reacttest.ToolCall("c1", "a2a_planner_send", `{"message":"Plan a trip."}`)),
			reacttest.Say("It is all planned."),
		),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer clerk.Shutdown(ctx)
	session := uuid.New()
	run, err := clerk.Start(ctx, react.Ask(session, "Where do we go?"))
	if err != nil {
		log.Fatal(err)
	}
	state, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Card().Name, "-", client.Card().Skills[0].Description)
	fmt.Println(state.Reply())
	// Output:
	// planner - Plans a trip.
	// It is all planned.
}
