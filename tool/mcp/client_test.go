package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/state"
	"github.com/everstep-go/everstep/tool/mcp"
)

func TestToolsAreWhatTheServerLists(t *testing.T) {
	t.Parallel()
	client, _ := connect(t, echoServer(), func(c *mcp.Config) {
		c.Capabilities = []string{"net"}
		c.Options = func(tool *sdk.Tool) react.ToolOptions {
			return react.ToolOptions{AtMostOnce: tool.Name == "echo", Capabilities: []string{"more"}}
		}
	})
	require.NoError(t, client.Refused())
	require.Len(t, client.Tools(), 1)
	spec := client.Tools()[0].Spec()
	assert.Equal(t, "fake__echo", spec.Name)
	assert.Equal(t, "Says it again.", spec.Description)
	assert.JSONEq(t, `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`, string(spec.Parameters))
	assert.Equal(t, []string{"net", "more"}, spec.Capabilities)
	assert.True(t, spec.AtMostOnce)
	assert.Equal(t, time.Minute, spec.Timeout)

	for prefix, want := range map[string]string{"": "echo", "x-": "x-echo", "my server/": "my_server_echo"} {
		client, _ := connect(t, echoServer(), func(c *mcp.Config) { c.Prefix, c.CallTimeout = react.Set(prefix), -1 })
		assert.Equal(t, []string{want}, toolNames(client))
		assert.Zero(t, client.Tools()[0].Spec().Timeout)
		got, err := call(t.Context(), client, want, `{"text":"hi"}`)
		require.NoError(t, err)
		assert.Equal(t, `"hi"`, got)
	}
}

// listing returns a server that lists these tools.
func listing(tools func() []*sdk.Tool) *sdk.Server {
	server := echoServer()
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			res, err := next(ctx, method, req)
			if list, ok := res.(*sdk.ListToolsResult); ok {
				list.Tools = tools()
			}
			return res, err
		}
	})
	return server
}

func object() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

func TestToolsThatAnAgentCannotHaveAreRefusedAndTheOthersWork(t *testing.T) {
	t.Parallel()
	client, _ := connect(t, listing(func() []*sdk.Tool {
		return []*sdk.Tool{
			{Name: "text", InputSchema: json.RawMessage(`{"type":"string"}`)},
			{Name: "none"},
			{Name: "untyped", InputSchema: json.RawMessage(`{"properties":{}}`)},
			{Name: "broken", InputSchema: json.RawMessage(`{"type":"object","$ref":"#/$defs/nothing"}`)},
			{Name: "echo", InputSchema: object()},
			{Name: "echo", InputSchema: object(), Description: "another"},
			{Name: "old", Title: "An old one.", InputSchema: json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)},
		}
	}))
	assert.Equal(t, []string{"fake__echo", "fake__old"}, toolNames(client))
	assert.Equal(t, "An old one.", client.Tools()[1].Spec().Description)
	refused := strings.Split(client.Refused().Error(), "\n")
	require.Len(t, refused, 5)
	for i, name := range []string{"text", "none", "untyped", "broken", "echo"} {
		assert.Contains(t, refused[i], fmt.Sprintf(`mcp: server "fake": tool %q: `, name))
	}
	assert.Contains(t, refused[0], `a JSON schema with "type":"object" is needed`)
	got, err := call(t.Context(), client, "fake__echo", `{"text":"hi"}`)
	require.NoError(t, err)
	assert.Equal(t, `"hi"`, got)
}

func TestNamesAreThoseThatAllModelsTake(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	tools := []*sdk.Tool{
		{Name: "a.b", InputSchema: object()},
		{Name: "a/b", InputSchema: object()},
		{Name: "a_b", InputSchema: object()},
		{Name: "only.one", InputSchema: object()},
		{Name: long + "1", InputSchema: object()},
		{Name: long + "2", InputSchema: object()},
	}
	seen := func() map[string]string {
		client, _ := connect(t, listing(func() []*sdk.Tool { return tools }))
		require.NoError(t, client.Refused())
		names := map[string]string{}
		for i, name := range toolNames(client) {
			assert.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, name)
			names[tools[i].Name] = name
		}
		return names
	}
	first := seen()
	assert.Equal(t, "fake__a_b", first["a_b"])
	assert.Equal(t, "fake__only_one", first["only.one"])
	assert.Regexp(t, `^fake__a_b_[0-9a-f]{8}$`, first["a.b"])
	unique := map[string]bool{}
	for _, name := range first {
		unique[name] = true
	}
	assert.Len(t, unique, len(tools))
	slices.Reverse(tools)
	assert.Equal(t, first, seen(), "in any order")
}

func TestTheListIsReadAgainByRefreshOnly(t *testing.T) {
	t.Parallel()
	server := echoServer()
	client, _ := connect(t, server)
	addTool(server, "second", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return say("2"), nil })
	assert.Equal(t, []string{"fake__echo"}, toolNames(client))
	require.NoError(t, client.Refresh(t.Context()))
	assert.Equal(t, []string{"fake__echo", "fake__second"}, toolNames(client))
}

func TestResults(t *testing.T) {
	t.Parallel()
	const big = `{"id":9007199254740993,"tag":"<b>"}`
	for name, c := range map[string]struct {
		result string // of tools/call
		want   string
		err    string
	}{
		"text":                    {result: `{"content":[{"type":"text","text":"a <b>"}]}`, want: `"a <b>"`},
		"texts":                   {result: `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, want: `"a\nb"`},
		"nothing":                 {result: `{"content":[]}`, want: ``},
		"image":                   {result: `{"content":[{"type":"text","text":"see"},{"type":"image","data":"AAEC","mimeType":"image/png"}]}`, want: `[{"type":"text","text":"see"},{"type":"image","mimeType":"image/png","data":"AAEC"}]`},
		"audio":                   {result: `{"content":[{"type":"audio","data":"AAEC","mimeType":"audio/wav"}]}`, want: `[{"type":"audio","mimeType":"audio/wav","data":"AAEC"}]`},
		"link":                    {result: `{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`, want: `[{"type":"resource_link","uri":"file:///a","name":"a"}]`},
		"structured":              {result: `{"content":[{"type":"text","text":"9 degrees"}],"structuredContent":{"t":9,"s":"<"}}`, want: `{"s":"<","t":9}`},
		"structured, and as text": {result: fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"structuredContent":%s}`, " "+big, big), want: big},
		"structured list":         {result: `{"content":[],"structuredContent":[1]}`, want: `[1]`},
		"error":                   {result: `{"isError":true,"content":[{"type":"text","text":"no such city"},{"type":"text","text":"really"}]}`, err: "no such city\nreally"},
		"error without a text":    {result: `{"isError":true,"content":[{"type":"image","data":"AAEC","mimeType":"image/png"}]}`, err: `[{"type":"image","mimeType":"image/png","data":"AAEC"}]`},
		"error without anything":  {result: `{"isError":true,"content":[]}`, err: ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer()
			addTool(server, "tool", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				var res sdk.CallToolResult
				err := json.Unmarshal([]byte(c.result), &res)
				return &res, err
			})
			client, _ := connect(t, server)
			got, err := call(t.Context(), client, "fake__tool", `{}`)
			if strings.HasPrefix(name, "error") {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestWhatTheServerRefusesIsAnErrorWithoutASecondCall(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := newServer()
	addTool(server, "tool", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		calls.Add(1)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "that will not do"}
	})
	client, _ := connect(t, server)
	_, err := call(t.Context(), client, "fake__tool", ``)
	require.EqualError(t, err, `mcp: server "fake": that will not do`)
	assert.EqualValues(t, 1, calls.Load())
}

func TestTheIdempotencyKeyTravels(t *testing.T) {
	t.Parallel()
	server := newServer()
	var meta sdk.Meta
	addTool(server, "tool", func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		meta = req.Params.Meta
		return say("ok"), nil
	})
	client, _ := connect(t, server)
	_, err := call(t.Context(), client, "fake__tool", `{}`)
	require.NoError(t, err)
	assert.Equal(t, "key", meta["everstep/idempotencyKey"])
}

func TestProgressIsActivityAndLateProgressIsNone(t *testing.T) {
	t.Parallel()
	for _, version := range sdk.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := newServer(version)
			heard := make(chan struct{})
			late := make(chan error, 1)
			addTool(server, "tool", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				token := req.Params.GetProgressToken()
				for _, p := range []*sdk.ProgressNotificationParams{
					{ProgressToken: "of another call", Progress: 9},
					{ProgressToken: token, Progress: 1},
					{ProgressToken: token, Progress: 2, Total: 4, Message: "half"},
				} {
					if err := req.Session.NotifyProgress(ctx, p); err != nil {
						return nil, err
					}
				}
				<-heard
				go func() { // which may be heard after the result, or not any more
					late <- req.Session.NotifyProgress(context.WithoutCancel(ctx), &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 3})
				}()
				return say("done"), nil
			})
			client, _ := connect(t, server)
			agent := newAgent(t, reacttest.NewScript(reacttest.Call(reacttest.ToolCall("c1", "fake__tool", `{}`)), reacttest.Say("well")), client.Tools())
			var got []event.ActivityDelta
			for e, err := range agent.Run(t.Context(), react.Ask(uuid.New(), "go")) {
				require.NoError(t, err)
				if d, ok := e.Data.(event.ActivityDelta); ok {
					if got = append(got, d); len(got) == 2 {
						close(heard)
					}
				}
			}
			<-late
			num := func(text string) json.RawMessage { return json.RawMessage(text) }
			require.GreaterOrEqual(t, len(got), 2)
			assert.Equal(t, []event.ActivityDelta{
				{ToolCallID: "c1", ActivityType: "mcp_progress", Patch: state.Patch{state.Replace("/progress", num("1"))}},
				{ToolCallID: "c1", ActivityType: "mcp_progress", Patch: state.Patch{
					state.Replace("/progress", num("2")), state.Replace("/total", num("4")), state.Replace("/message", num(`"half"`))}},
			}, got[:2])
		})
	}
}

func TestTheEndOfTheContextCancelsTheCallAtOnce(t *testing.T) {
	t.Parallel()
	for _, version := range sdk.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := newServer(version)
			started, cancelled := make(chan struct{}), make(chan struct{})
			addTool(server, "hang", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				close(started)
				<-ctx.Done()
				close(cancelled)
				return nil, ctx.Err()
			})
			client, _ := connect(t, server)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-started; cancel() }()
			_, err := call(ctx, client, "fake__hang", `{}`)
			require.ErrorIs(t, err, context.Canceled)
			<-cancelled
		})
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	t.Run("of a call", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			server := newServer()
			addTool(server, "hang", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			client, _ := connect(t, server)
			agent := newAgent(t, reacttest.NewScript(reacttest.Call(reacttest.ToolCall("c1", "fake__hang", `{}`)), reacttest.Say("well")), client.Tools())
			start := time.Now()
			events, _ := run(t, agent, react.Ask(uuid.New(), "go"))
			assert.Equal(t, time.Minute, time.Since(start).Round(time.Second))
			failed := of[event.ToolCallError](events)
			require.Len(t, failed, 1)
			assert.Equal(t, react.CodeTimeout, failed[0].Code)
			time.Sleep(time.Minute) // until the agent's heart stops
		})
	})
	t.Run("of connecting", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := mcp.Connect(t.Context(), mcp.Config{Name: "deaf", Transport: func() (sdk.Transport, error) {
				ours, theirs := sdk.NewInMemoryTransports()
				conn, err := ours.Connect(t.Context())
				t.Cleanup(func() { conn.Close() })
				go func() { // hears and says nothing
					for err == nil {
						_, err = conn.Read(context.WithoutCancel(t.Context()))
					}
				}()
				return theirs, err
			}})
			require.EqualError(t, err, `mcp: server "deaf": not connected within 10s`)
			assert.Equal(t, 10*time.Second, time.Since(start).Round(time.Second))
		})
	})
}

// dying returns a server whose tool breaks the connection in its first calls.
func dying(h **host, breaks int32, fail int) (*sdk.Server, *atomic.Int32) {
	var calls atomic.Int32
	server := newServer()
	addTool(server, "tool", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if n := calls.Add(1); n <= breaks {
			(*h).cut(fail)
			<-ctx.Done()
		}
		return say("done"), nil
	})
	return server, &calls
}

func TestACallIsMadeAgainOnceWhenTheConnectionIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks int32 // connections in calls
		fail   int   // attempts to connect afterwards
		once   bool  // the tool is AtMostOnce
		calls  int32
		err    string
		took   time.Duration
	}{
		"it comes back":           {breaks: 1, calls: 2},
		"it takes its time":       {breaks: 1, fail: 2, calls: 2, took: 1500 * time.Millisecond},
		"it stays away":           {breaks: 1, fail: 3, calls: 1, took: 1500 * time.Millisecond, err: `mcp: server "fake": connecting: nobody is there`},
		"it dies again":           {breaks: 2, calls: 2, err: `the connection was lost`},
		"not if it may not be":    {breaks: 1, once: true, calls: 1, err: `whether the tool did its work is unknown: the connection was lost`},
		"and not if nothing does": {calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var h *host
				server, calls := dying(&h, c.breaks, c.fail)
				client, host := connect(t, server, func(config *mcp.Config) {
					config.Options = func(*sdk.Tool) react.ToolOptions { return react.ToolOptions{AtMostOnce: c.once} }
				})
				h = host
				start := time.Now()
				got, err := call(t.Context(), client, "fake__tool", `{}`)
				assert.Equal(t, c.took, time.Since(start))
				assert.Equal(t, c.calls, calls.Load())
				if c.err != "" {
					require.ErrorContains(t, err, c.err)
				} else {
					require.NoError(t, err)
					assert.Equal(t, `"done"`, got)
				}
				// Whatever happened, the next call finds a connection.
				got, err = call(t.Context(), client, "fake__tool", `{}`)
				require.NoError(t, err)
				assert.Equal(t, `"done"`, got)
				synctest.Wait()
			})
		})
	}
}

// What was lost between two calls is not a reason to give up a tool that is AtMostOnce.
func TestAConnectionThatWasLostBeforeTheCallIsMadeAgainForEveryTool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, h := connect(t, echoServer(), func(config *mcp.Config) {
			config.Options = func(*sdk.Tool) react.ToolOptions { return react.ToolOptions{AtMostOnce: true} }
		})
		h.cut(0)
		synctest.Wait()
		got, err := call(t.Context(), client, "fake__echo", `{"text":"hi"}`)
		require.NoError(t, err)
		assert.Equal(t, `"hi"`, got)
		assert.Equal(t, 2, h.dialled())
	})
}

func TestCallsThatLoseTheSameConnectionShareTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		server := newServer()
		var h *host
		addTool(server, "tool", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if n := calls.Add(1); n <= 10 {
				if n == 10 {
					h.cut(1)
				}
				<-ctx.Done()
			}
			return say("done"), nil
		})
		client, host := connect(t, server)
		h = host
		errs := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := call(t.Context(), client, "fake__tool", `{}`)
				errs <- err
			}()
		}
		for range 10 {
			require.NoError(t, <-errs)
		}
		assert.Equal(t, 3, h.dialled()) // the first, the one that fails, the next
		assert.EqualValues(t, 20, calls.Load())
	})
}

// One request that the server is too busy for says nothing about the others.
func TestCallsThatDoNotFailGoOnBesideTheNextConnection(t *testing.T) {
	t.Parallel()
	started, next := make(chan struct{}), make(chan struct{})
	var busy atomic.Bool
	server := echoServer()
	addTool(server, "slow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		close(started)
		<-next
		return say("done"), nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy.CompareAndSwap(true, false) {
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	client, err := mcp.Connect(t.Context(), mcp.Config{Name: "web", URL: web.URL, Options: func(tool *sdk.Tool) react.ToolOptions {
		return react.ToolOptions{AtMostOnce: tool.Name == "slow"}
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.Close())
		for session := range server.Sessions() {
			session.Close()
		}
		web.Close()
	})
	slow := make(chan error)
	go func() { _, err := call(t.Context(), client, "web__slow", `{}`); slow <- err }()
	<-started
	busy.Store(true)
	got, err := call(t.Context(), client, "web__echo", `{"text":"hi"}`)
	require.NoError(t, err)
	assert.Equal(t, `"hi"`, got)
	assert.False(t, busy.Load())
	close(next)
	require.NoError(t, <-slow)
}

func TestCloseEndsCallsAndWhoeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		addTool(server, "hang", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		client, _ := connect(t, server)
		errs := make(chan error)
		go func() { _, err := call(t.Context(), client, "fake__hang", `{}`); errs <- err }()
		synctest.Wait()
		require.NoError(t, client.Close())
		require.ErrorIs(t, <-errs, mcp.ErrClosed)
		_, err := call(t.Context(), client, "fake__hang", `{}`)
		require.ErrorIs(t, err, mcp.ErrClosed)
		require.ErrorIs(t, client.Refresh(t.Context()), mcp.ErrClosed)
		require.NoError(t, client.Close()) // again

		client, h := connect(t, server)
		h.cut(100)
		synctest.Wait()
		go func() { _, err := call(t.Context(), client, "fake__hang", `{}`); errs <- err }()
		synctest.Wait() // it waits before it tries again
		require.NoError(t, client.Close())
		require.ErrorIs(t, <-errs, mcp.ErrClosed)
	})
}

func TestConfigsThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]mcp.Config{
		"mcp: a server needs a Name": {Command: "x"},
		`mcp: server "s": one of Command, URL and Transport is needed, not 0 of them`:              {Name: "s"},
		`mcp: server "s": one of Command, URL and Transport is needed, not 2 of them`:              {Name: "s", Command: "x", URL: "http://localhost"},
		`mcp: server "s": a timeout is negative`:                                                   {Name: "s", Command: "x", Grace: -1},
		`mcp: server "s": connecting: exec: "no-such-program": executable file not found in $PATH`: {Name: "s", Command: "no-such-program"},
	} {
		_, err := mcp.Connect(t.Context(), config)
		require.EqualError(t, err, want)
	}
	_, err := mcp.Connect(t.Context(), mcp.Config{Name: "s", Transport: func() (sdk.Transport, error) { return nil, errors.New("no") }})
	require.EqualError(t, err, `mcp: server "s": connecting: no`)
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	server := echoServer()
	serve := func() http.Handler {
		return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	}
	var handler atomic.Pointer[http.Handler]
	restart := func() { h := serve(); handler.Store(&h) }
	restart()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		(*handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		for session := range server.Sessions() { // those of before the restarts
			session.Close()
		}
		web.Close()
	})
	_, err := mcp.Connect(t.Context(), mcp.Config{Name: "web", URL: web.URL})
	require.ErrorContains(t, err, `mcp: server "web": connecting: `)

	client, err := mcp.Connect(t.Context(), mcp.Config{Name: "web", URL: web.URL, HTTPClient: web.Client(), Header: http.Header{"authorization": {"Bearer secret"}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	for range 2 {
		got, err := call(t.Context(), client, "web__echo", `{"text":"hi"}`)
		require.NoError(t, err)
		assert.Equal(t, `"hi"`, got)
		restart() // and no session is known any more
	}
}
