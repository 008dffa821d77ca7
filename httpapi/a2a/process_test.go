package a2a_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/httpapi/a2a"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/sqlite"
)

// env tells the test binary to be a server in the current folder.
const env = "EVERSTEP_A2A_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(env) != "" {
		log.Fatal(program())
	}
	os.Exit(m.Run())
}

// program serves an agent whose only tool writes its idempotency key to the file ledger and is done when there
// is a file done.
func program() error {
	st, err := sqlite.Open("a2a.db", nil)
	if err != nil {
		return err
	}
	work := react.NewTool("work", "Works.", func(ctx context.Context, _ struct{}) (string, error) {
		ledger, err := os.OpenFile("ledger", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(ledger, graph.IdempotencyKey(ctx))
		for {
			if _, err := os.Stat("done"); err == nil {
				return "worked", ledger.Close()
			}
			select {
			case <-time.After(testTick):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	})
	agent, err := react.New(react.Config{Name: "worker", Model: react.ModelFunc(say), Tools: []react.Tool{work}, Store: st, Logger: quiet})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String()
	config := a2a.ServerConfig{URL: url, Logger: quiet}
	config.Push = a2a.PushConfig{AllowPrivate: true, Timeout: time.Second, Backoff: testTick}
	server, err := a2a.NewServer(agent, config)
	if err != nil {
		return err
	}
	go agent.Serve(context.Background())
	go server.Serve(context.Background())
	fmt.Println(url)
	return http.Serve(l, server)
}

// process is a server in a folder.
type process struct {
	*exec.Cmd
	url string
}

func launch(t *testing.T, dir string) *process {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	p := &process{Cmd: exec.CommandContext(t.Context(), binary)}
	p.Dir = dir
	p.Env = append(os.Environ(), env+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	p.url, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	p.url = strings.TrimSpace(p.url)
	t.Cleanup(func() { _ = p.Wait() })
	return p
}

// kill is kill -9.
func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Process.Kill())
	_ = p.Wait()
}

func (p *process) client(t *testing.T, binding sdk.TransportProtocol) *a2aclient.Client {
	t.Helper()
	b := &bundle{url: p.url}
	return b.client(t, binding)
}

func ledger(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "ledger"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	return strings.Fields(string(text))
}

func TestATaskOutlivesItsServer(t *testing.T) {
	t.Parallel()
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			dir, h := t.TempDir(), newHook(t)
			first := launch(t, dir)
			req := ask("one moment\ncall work {}")
			req.Config = &sdk.SendMessageConfig{ReturnImmediately: true, PushConfig: &sdk.PushConfig{URL: h.URL}}
			task := send(t, first.client(t, binding), req)
			require.Eventually(t, func() bool { return len(ledger(t, dir)) == 1 }, testWait, testTick)
			var broken error
			for e, err := range first.client(t, binding).SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: task.ID}) {
				if broken = err; err != nil {
					break
				}
				if u, ok := e.(*sdk.TaskArtifactUpdateEvent); ok && u.LastChunk {
					first.kill(t)
				}
			}
			require.Error(t, broken, "the stream breaks off, it does not end")

			second := launch(t, dir)
			c := second.client(t, binding)
			assert.Equal(t, task.ID, send(t, c, req).ID, "the message is known again")
			require.Eventually(t, func() bool { return len(ledger(t, dir)) == 2 }, testWait, testTick)
			keys := ledger(t, dir)
			assert.Equal(t, keys[0], keys[1], "the tool could know")
			var stream []sdk.Event
			for e, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: task.ID}) {
				require.NoError(t, err)
				if stream = append(stream, e); len(stream) == 1 {
					require.NoError(t, os.WriteFile(filepath.Join(dir, "done"), nil, 0o600))
				}
			}
			followed := replay(t, stream)
			assert.Equal(t, sdk.TaskStateCompleted, followed.Status.State)
			assert.Equal(t, []string{"one moment", "worked"}, texts(followed))
			got, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: task.ID})
			require.NoError(t, err)
			assert.Equal(t, texts(got), texts(followed))
			list, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{Status: sdk.TaskStateCompleted})
			require.NoError(t, err)
			require.Len(t, list.Tasks, 1)
			h.wait(t, 1)
			states, told := h.told()
			assert.Equal(t, []sdk.TaskState{sdk.TaskStateCompleted}, states)
			assert.Equal(t, []string{"one moment", "worked"}, told)
			second.kill(t)
		})
	}
}

func TestANotificationOutlivesItsSender(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "done"), nil, 0o600))
	var first *process
	asked := make(chan struct{})
	h := newHook(t)
	h.before = func() {
		select {
		case <-asked:
		default:
			close(asked)
			first.kill(t) // it has decided, and begun, to send
			panic(http.ErrAbortHandler)
		}
	}
	first = launch(t, dir)
	req := ask("call work {}")
	req.Config = &sdk.SendMessageConfig{ReturnImmediately: true, PushConfig: &sdk.PushConfig{URL: h.URL}}
	send(t, first.client(t, sdk.TransportProtocolJSONRPC), req)
	<-asked
	second := launch(t, dir)
	h.wait(t, 1)
	states, _ := h.told()
	assert.Equal(t, sdk.TaskStateCompleted, states[0])
	second.kill(t)
}
