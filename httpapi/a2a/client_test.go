package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/httpapi/a2a"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// stranger is an agent on the SDK's server, which knows no message again. It says what it hears, but asks
// for a colour if it hears "ask", and is busy with "sleep" until it is cancelled.
type stranger struct {
	mu    sync.Mutex // guards began
	began []string   // what it heard
}

func (s *stranger) Execute(ctx context.Context, e *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		heard := e.Message.Parts[0].Text()
		s.mu.Lock()
		s.began = append(s.began, heard)
		s.mu.Unlock()
		if e.StoredTask == nil && !yield(sdk.NewSubmittedTask(e, e.Message), nil) {
			return
		}
		if !yield(sdk.NewStatusUpdateEvent(e, sdk.TaskStateWorking, nil), nil) {
			return
		}
		switch heard {
		case "ask":
			yield(sdk.NewStatusUpdateEvent(e, sdk.TaskStateInputRequired, sdk.NewMessageForTask(sdk.MessageRoleAgent, e, sdk.NewTextPart("Which colour?"))), nil)
			return
		case "login":
			yield(sdk.NewStatusUpdateEvent(e, sdk.TaskStateAuthRequired, sdk.NewMessageForTask(sdk.MessageRoleAgent, e, sdk.NewTextPart("Who are you?"))), nil)
			return
		case "fail":
			yield(sdk.NewStatusUpdateEvent(e, sdk.TaskStateFailed, sdk.NewMessageForTask(sdk.MessageRoleAgent, e, sdk.NewTextPart("no voice"))), nil)
			return
		case "sleep":
			<-ctx.Done()
			return
		}
		if yield(sdk.NewArtifactEvent(e, sdk.NewTextPart(heard+"!")), nil) {
			yield(sdk.NewStatusUpdateEvent(e, sdk.TaskStateCompleted, nil), nil)
		}
	}
}

func (s *stranger) Cancel(_ context.Context, e *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(e, sdk.TaskStateCanceled, nil), nil)
	}
}

func (s *stranger) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.began...)
}

// serve serves the stranger on a binding and returns where.
func (s *stranger) serve(t testing.TB, binding sdk.TransportProtocol, streaming bool) string {
	t.Helper()
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.CloseClientConnections) // streams of tasks that sleep
	tasks := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: func(context.Context) (string, error) { return "everybody", nil }})
	handler := a2asrv.NewHandler(s, a2asrv.WithTaskStore(tasks), a2asrv.WithLogger(quiet))
	url := web.URL
	if binding == sdk.TransportProtocolJSONRPC {
		url += "/rpc"
	}
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/", a2asrv.NewRESTHandler(handler))
	mux.Handle(a2a.WellKnown, a2asrv.NewStaticAgentCardHandler(&sdk.AgentCard{
		Name: "Stranger", Description: "Says what it hears.", Version: "1",
		SupportedInterfaces: []*sdk.AgentInterface{sdk.NewAgentInterface(url, binding)},
		Capabilities:        sdk.AgentCapabilities{Streaming: streaming},
		DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []sdk.AgentSkill{{ID: "echo", Name: "echo", Description: "Says it.", Tags: []string{"echo"}}},
	}))
	return web.URL
}

func connect(t testing.TB, url string, changes ...func(*a2a.Config)) *a2a.Client {
	t.Helper()
	config := a2a.Config{Name: "it", URL: url}
	for _, change := range changes {
		change(&config)
	}
	c, err := a2a.Connect(t.Context(), config)
	require.NoError(t, err)
	return c
}

// sends is a model that calls the tool of that verb for each user message, with the message or what is JSON in
// it, and then says what came of it.
func sends(_ context.Context, req *message.Request) (message.Reply, error) {
	switch m := req.Messages[len(req.Messages)-1].(type) {
	case *message.User:
		call := message.ToolCall{ID: fmt.Sprint("call", len(req.Messages)), Name: "a2a_it_send"}
		var in struct {
			Tool      string          `json:"tool"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if json.Unmarshal([]byte(m.Text()), &in) == nil {
			call.Name, call.Arguments = in.Tool, in.Arguments
		} else {
			call.Arguments, _ = json.Marshal(map[string]string{"message": m.Text()})
		}
		return message.Reply{ToolCalls: []message.ToolCall{call}, FinishReason: message.FinishToolCalls}, nil
	case *message.Tool:
		return message.Reply{Text: m.Text(), FinishReason: message.FinishStop}, nil
	}
	return message.Reply{}, errors.New("nobody said anything")
}

func caller(t testing.TB, c *a2a.Client, changes ...func(*react.Config)) *react.Agent {
	t.Helper()
	config := react.Config{Name: "caller", Model: react.ModelFunc(sends), Tools: c.Tools(), Store: memory.New(nil), Logger: quiet}
	for _, change := range changes {
		change(&config)
	}
	return newAgent(t, config)
}

// do runs an agent to its end.
func do(t testing.TB, agent *react.Agent, in react.Input) (react.State, error) {
	t.Helper()
	run, err := agent.Start(t.Context(), in)
	require.NoError(t, err)
	return run.Wait(t.Context())
}

// report is what a tool tells of a task.
type report struct {
	TaskID    string `json:"task_id"`
	ContextID string `json:"context_id"`
	State     string `json:"state"`
	Text      string `json:"text"`
	Question  string `json:"question"`
}

func reported(t testing.TB, s react.State) (r report) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s.Reply()), &r), s.Reply())
	return r
}

// eachStranger runs a test on each way to reach a stranger.
func eachStranger(t *testing.T, test func(t *testing.T, s *stranger, url string)) {
	t.Helper()
	for _, binding := range bindings {
		for name, streaming := range map[string]bool{"streaming": true, "polling": false} {
			t.Run(string(binding)+" "+name, func(t *testing.T) {
				t.Parallel()
				s := &stranger{}
				test(t, s, s.serve(t, binding, streaming))
			})
		}
	}
}

func TestAnAgentOfOthersIsATool(t *testing.T) {
	t.Parallel()
	eachStranger(t, func(t *testing.T, s *stranger, url string) {
		c := connect(t, url)
		agent := caller(t, c)
		state, err := do(t, agent, react.Ask(uuid.New(), "hello"))
		require.NoError(t, err)
		r := reported(t, state)
		assert.Equal(t, "completed", r.State)
		assert.Equal(t, "hello!", r.Text)
		state, err = do(t, agent, react.Ask(uuid.New(), "fail"))
		require.NoError(t, err)
		assert.Contains(t, state.Reply(), "is failed: no voice")
		assert.Equal(t, []string{"hello", "fail"}, s.heard())
	})
}

func TestWhatAnAgentAsksARunAsks(t *testing.T) {
	t.Parallel()
	eachStranger(t, func(t *testing.T, s *stranger, url string) {
		agent, session := caller(t, connect(t, url)), uuid.New()
		_, err := do(t, agent, react.Ask(session, "ask"))
		asked, ok := errors.AsType[*graph.InterruptedError](err)
		require.True(t, ok, "%v", err)
		require.Len(t, asked.Questions, 1)
		assert.JSONEq(t, `{"agent":"it","state":"TASK_STATE_INPUT_REQUIRED","message":"Which colour?"}`, string(asked.Questions[0].Payload))
		state, err := do(t, agent, react.Answer(session, "red"))
		require.NoError(t, err)
		assert.Equal(t, "red!", reported(t, state).Text)
		assert.Equal(t, []string{"ask", "red"}, s.heard())
	})
}

// A client of ours asks an agent of ours, which asks a stranger: what that one asks comes back all the way.
func TestAQuestionGoesThroughAnAgentInBetween(t *testing.T) {
	t.Parallel()
	eachStranger(t, func(t *testing.T, s *stranger, url string) {
		c := serve(t, caller(t, connect(t, url))).client(t, sdk.TransportProtocolJSONRPC)
		asked := send(t, c, ask("ask"))
		assert.Equal(t, sdk.TaskStateInputRequired, asked.Status.State)
		assert.Equal(t, "Which colour?", words(asked.Status.Message))
		done := send(t, c, about(ask("red"), asked.ID, ""))
		assert.Equal(t, sdk.TaskStateCompleted, done.Status.State)
		assert.Contains(t, texts(done)[0], `"text":"red!"`)
		assert.Equal(t, []string{"ask", "red"}, s.heard())
		login := send(t, c, ask("login"))
		assert.Equal(t, sdk.TaskStateAuthRequired, login.Status.State)
		assert.Equal(t, "Who are you?", words(login.Status.Message))
	})
}

func TestAModelAnswersIfItIsAsked(t *testing.T) {
	t.Parallel()
	eachStranger(t, func(t *testing.T, s *stranger, url string) {
		agent, session := caller(t, connect(t, url, func(c *a2a.Config) { c.AskModel = true })), uuid.New()
		state, err := do(t, agent, react.Ask(session, "ask"))
		require.NoError(t, err)
		r := reported(t, state)
		assert.Equal(t, "input_required", r.State)
		assert.Equal(t, "Which colour?", r.Question)
		state, err = do(t, agent, react.Ask(session, fmt.Sprintf(`{"tool":"a2a_it_send","arguments":{"task_id":%q,"message":"red"}}`, r.TaskID)))
		require.NoError(t, err)
		assert.Equal(t, "red!", reported(t, state).Text)
	})
}

func TestATaskIsLeftLookedAtAndCancelled(t *testing.T) {
	t.Parallel()
	eachStranger(t, func(t *testing.T, s *stranger, url string) {
		agent, session := caller(t, connect(t, url)), uuid.New()
		state, err := do(t, agent, react.Ask(session, `{"tool":"a2a_it_send","arguments":{"message":"sleep","no_wait":true}}`))
		require.NoError(t, err)
		id := reported(t, state).TaskID
		require.NotEmpty(t, id)
		use := func(verb, id string) string {
			state, err := do(t, agent, react.Ask(session, fmt.Sprintf(`{"tool":"a2a_it_%s","arguments":{"task_id":%q}}`, verb, id)))
			require.NoError(t, err)
			return state.Reply()
		}
		assert.NotContains(t, use("get_task", id), `"state":"canceled"`)
		assert.Contains(t, use("get_task", uuid.NewString()), "no result of a2a_it_send in this conversation names", "of somebody else")
		assert.Contains(t, use("cancel_task", id), `"state":"canceled"`)
		assert.Contains(t, use("stream_task", id), "is canceled")
	})
}

func TestATaskIsCancelledWithTheRunThatWaitsForIt(t *testing.T) {
	t.Parallel()
	eachStranger(t, func(t *testing.T, s *stranger, url string) {
		agent := caller(t, connect(t, url))
		run, err := agent.Start(t.Context(), react.Ask(uuid.New(), "sleep"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(s.heard()) == 1 }, testWait, testTick)
		require.NoError(t, run.Cancel(t.Context()))
		_, err = run.Wait(t.Context())
		require.ErrorIs(t, err, graph.ErrCancelled)
		card := connect(t, url).Card()
		remote, err := a2aclient.NewFromCard(t.Context(), card)
		require.NoError(t, err)
		list, err := remote.ListTasks(t.Context(), &sdk.ListTasksRequest{})
		require.NoError(t, err)
		require.Len(t, list.Tasks, 1)
		assert.Equal(t, sdk.TaskStateCanceled, list.Tasks[0].Status.State)
	})
}

func TestProgressIsHeard(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil))
	agent := caller(t, connect(t, b.web.URL))
	run, err := agent.Start(t.Context(), react.Ask(uuid.New(), "one moment\ncall note {\"Text\":\"x\"}"))
	require.NoError(t, err)
	kinds := map[string]int{}
	for e, err := range run.Events(t.Context(), 0) {
		require.NoError(t, err)
		if d, ok := e.Data.(event.ActivityDelta); ok {
			kinds[d.ActivityType]++
		}
	}
	state, err := run.Wait(t.Context())
	require.NoError(t, err)
	assert.Contains(t, reported(t, state).Text, "one moment")
	if kinds["a2a_task"] > 0 { // else it had ended before it could be watched
		assert.NotZero(t, kinds["a2a_task_status"])
	}
}

// A process that dies at any moment of a call leaves one task behind, although the agent knows no message
// again.
func TestACallThatIsMadeAgainMakesNoSecondTask(t *testing.T) {
	t.Parallel()
	s := &stranger{}
	url := s.serve(t, sdk.TransportProtocolJSONRPC, true)
	scenario := func(t *testing.T, n int, fault graphtest.Fault) (calls int) {
		before := len(s.heard())
		clock := graphtest.NewClock(time.Now())
		kept := memory.New(&memory.Options{Now: clock.Now})
		faulty := graphtest.NewFaulty(kept, n, fault)
		id, session := uuid.New(), uuid.New()
		in := react.Ask(session, "hello")
		in.Run = id
		agent := caller(t, connect(t, url), func(c *react.Config) { c.Store = faulty })
		run, err := agent.Start(t.Context(), in)
		if err == nil {
			_, err = run.Wait(t.Context())
		}
		if err != nil {
			faulty.Kill()
			clock.Add(time.Hour)
			agent = caller(t, connect(t, url), func(c *react.Config) { c.Store = kept })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go agent.Serve(ctx)
			if run, err = agent.Start(t.Context(), in); errors.Is(err, store.ErrExists) {
				run, err = agent.Attach(t.Context(), "", id)
			}
			require.NoError(t, err)
			_, err = run.Wait(t.Context())
			require.NoError(t, err)
		}
		state, err := caller(t, connect(t, url), func(c *react.Config) { c.Store = kept }).State(t.Context(), "", session)
		require.NoError(t, err)
		assert.Equal(t, "hello!", reported(t, state).Text)
		assert.Len(t, s.heard(), before+1, "one task")
		return len(faulty.Calls())
	}
	for n := range scenario(t, 0, "") {
		for _, fault := range graphtest.Faults() {
			t.Run(fmt.Sprintf("%s at call %d", fault, n+1), func(t *testing.T) { scenario(t, n+1, fault) })
		}
	}
}

func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil))
	c := connect(t, b.web.URL, func(c *a2a.Config) {
		c.Tenant = func(caller graph.Info) string { return "of " + caller.Tenant }
		c.Allow = func(caller graph.Info) error {
			if caller.Tenant == "poor" {
				return errors.New("your plan has no agents of others")
			}
			return nil
		}
	})
	agent := caller(t, c)
	in := react.Ask(uuid.New(), "hello")
	in.Tenant = "rich"
	state, err := do(t, agent, in)
	require.NoError(t, err)
	assert.Equal(t, "hello (1)", reported(t, state).Text)
	list, err := b.client(t, sdk.TransportProtocolJSONRPC).ListTasks(t.Context(), &sdk.ListTasksRequest{Tenant: "of rich"})
	require.NoError(t, err)
	assert.Len(t, list.Tasks, 1)
	in = react.Ask(uuid.New(), "hello")
	in.Tenant = "poor"
	state, err = do(t, agent, in)
	require.NoError(t, err)
	assert.Equal(t, "Error: agent it may not be called: your plan has no agents of others", state.Reply())
}

func TestAnAgentOutOfReachIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := &stranger{}
	url := s.serve(t, sdk.TransportProtocolHTTPJSON, true)
	var mu sync.Mutex
	left := 4
	flaky := roundTripper(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if left > 0 && r.URL.Path != a2a.WellKnown {
			left--
			if left%2 == 0 {
				return nil, errors.New("no route")
			}
			rec := httptest.NewRecorder()
			rec.WriteHeader(http.StatusBadGateway)
			return rec.Result(), nil
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	state, err := do(t, caller(t, connect(t, url, func(c *a2a.Config) { c.HTTPClient = &http.Client{Transport: flaky} })), react.Ask(uuid.New(), "hello"))
	require.NoError(t, err)
	assert.Equal(t, "hello!", reported(t, state).Text)

	gone := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == a2a.WellKnown {
			return http.DefaultTransport.RoundTrip(r)
		}
		return nil, errors.New("no route")
	})
	state, err = do(t, caller(t, connect(t, url, func(c *a2a.Config) {
		c.HTTPClient, c.Unreachable = &http.Client{Transport: gone}, time.Millisecond
	})), react.Ask(uuid.New(), "hello"))
	require.NoError(t, err)
	assert.Contains(t, state.Reply(), `a2a: agent "it": out of reach for 1ms`)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	s := &stranger{}
	good := s.serve(t, sdk.TransportProtocolJSONRPC, true)
	card := func(t *testing.T, text string) string {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		}))
		t.Cleanup(web.Close)
		return web.URL
	}
	for name, tt := range map[string]struct {
		config a2a.Config
		want   string
	}{
		"no name":           {a2a.Config{URL: good}, "Config.Name"},
		"a name with dots":  {a2a.Config{Name: "a.b", URL: good}, "Config.Name"},
		"no URL":            {a2a.Config{Name: "it"}, "Config.URL"},
		"a file":            {a2a.Config{Name: "it", URL: "file:///etc/passwd"}, "Config.URL"},
		"a negative time":   {a2a.Config{Name: "it", URL: good, CallTimeout: -1}, "negative"},
		"nobody there":      {a2a.Config{Name: "it", URL: "http://127.0.0.1:1"}, "agent card"},
		"no card":           {a2a.Config{Name: "it", URL: good + "/nowhere"}, "agent card"},
		"a card elsewhere":  {a2a.Config{Name: "it", URL: card(t, `{"name":"x","supportedInterfaces":[{"url":"http://10.0.0.1/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`)}, "set AnyHost"},
		"an old version":    {a2a.Config{Name: "it", URL: card(t, `{"name":"x","supportedInterfaces":[{"url":"http://10.0.0.1/","protocolBinding":"JSONRPC","protocolVersion":"0.3"}]}`), AnyHost: true}, "no compatible transports"},
		"nothing but gRPC":  {a2a.Config{Name: "it", URL: card(t, `{"name":"x","supportedInterfaces":[{"url":"http://10.0.0.1/","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`)}, "no supported interfaces"},
		"a card of rubbish": {a2a.Config{Name: "it", URL: card(t, `[]`)}, "agent card"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a2a.Connect(t.Context(), tt.config)
			require.ErrorContains(t, err, tt.want)
		})
	}
	names := []string{}
	for _, tool := range connect(t, good).Tools() {
		names = append(names, tool.Spec().Name)
	}
	assert.Equal(t, []string{"a2a_it_send", "a2a_it_stream_task", "a2a_it_get_task", "a2a_it_cancel_task"}, names)
}
