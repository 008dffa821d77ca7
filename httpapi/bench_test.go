package httpapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/store/sqlite"
)

// serve serves an agent on a store and returns its address.
func serve(b *testing.B, st store.Store) (*react.Agent, string) {
	b.Helper()
	agent, err := react.New(react.Config{
		Name: "bench", Model: model{}, Store: st, Logger: slog.New(slog.DiscardHandler),
		Bus: event.NewMemory(&event.MemoryOptions{Bytes: 64 << 20, KeepBytes: 128 << 20}),
	})
	require.NoError(b, err)
	return agent, newServer(b, httpapi.New(agent, nil))
}

func database(b *testing.B) store.Store {
	b.Helper()
	st, err := sqlite.Open(filepath.Join(b.TempDir(), "bench.db"), nil)
	require.NoError(b, err)
	b.Cleanup(func() { _ = st.Close() })
	return st
}

func post(body string) string {
	return fmt.Sprintf("POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// client is the end of a connection that costs no allocation to use.
type client struct {
	conn *net.TCPConn
	r    *bufio.Reader
}

func dial(b *testing.B, address string) client {
	b.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return client{conn.(*net.TCPConn), bufio.NewReaderSize(conn, 64<<10)}
}

func (c client) send(b *testing.B, request []byte) {
	if _, err := c.conn.Write(request); err != nil {
		b.Error(err)
	}
}

// until reads up to and with a line that begins so.
func (c client) until(b *testing.B, begin string) {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			b.Error(err)
			return
		}
		if bytes.HasPrefix(line, []byte(begin)) {
			return
		}
	}
}

// end reads the rest of the response: its last chunk is empty.
func (c client) end(b *testing.B) {
	c.until(b, "0\r\n")
	c.until(b, "\r\n")
}

// What the server does for one text delta, from the log of the run to the socket, with a flush for each.
func BenchmarkDelta(b *testing.B) {
	const deltas = 10_000
	agent, address := serve(b, memory.New(nil))
	run, err := agent.Start(b.Context(), react.Ask(uuid.New(), strings.Repeat("word ", deltas)))
	require.NoError(b, err)
	_, err = run.Wait(b.Context())
	require.NoError(b, err)
	c := dial(b, address)
	request := []byte("GET /v1/runs/" + run.ID().String() + "/events HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 0\r\n\r\n")
	b.ReportAllocs()
	for b.Loop() {
		c.send(b, request)
		c.end(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
}

// From the request to the first event, on SQLite with FULL, beside a bare commit.
func BenchmarkFirstEvent(b *testing.B) {
	_, address := serve(b, database(b))
	c := dial(b, address)
	request := []byte(post(`{"messages":[{"role":"user","content":"hi"}]}`))
	var first, whole time.Duration
	for b.Loop() {
		start := time.Now()
		c.send(b, request)
		c.until(b, "event: run_started")
		first += time.Since(start)
		c.end(b)
		whole += time.Since(start)
	}
	b.ReportMetric(float64(first.Microseconds())/float64(b.N), "µs-first/op")
	b.ReportMetric(float64(whole.Microseconds())/float64(b.N), "µs-run/op")
}

// The first and the tenth page of a session of 1,000 messages, on SQLite.
func BenchmarkMessages(b *testing.B) {
	agent, address := serve(b, database(b))
	session := uuid.New()
	_, err := agent.CreateSession(b.Context(), "", session)
	require.NoError(b, err)
	for i := range 1000 {
		_, err := agent.PostMessage(b.Context(), "", session, message.NewUser(fmt.Sprintf("This is message %d of a thousand, of a usual length.", i)))
		require.NoError(b, err)
	}
	path := address + "/v1/sessions/" + session.String() + "/messages"
	cursor := ""
	for page := 1; page <= 10; page++ {
		link := path + "?page=" + url.QueryEscape(cursor)
		if cursor == "" {
			link = path
		}
		if page == 1 || page == 10 {
			b.Run(fmt.Sprintf("page=%d", page), func(b *testing.B) {
				for b.Loop() {
					res, err := http.Get(link)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, res.Body); err != nil {
						b.Fatal(err)
					}
					res.Body.Close()
				}
			})
		}
		got, err := agent.Messages(b.Context(), store.MessageQuery{Session: session, Paging: store.Paging{Page: cursor}})
		require.NoError(b, err)
		cursor = got.Next
	}
}

// 500 attached runs at once, each on a connection of its own, whose model says 20 words.
func Benchmark500AttachedRuns(b *testing.B) {
	for name, open := range map[string]func() store.Store{
		"memory": func() store.Store { return memory.New(nil) }, "sqlite": func() store.Store { return database(b) },
	} {
		b.Run(name, func(b *testing.B) {
			const clients = 500
			_, address := serve(b, open())
			request := []byte(post(`{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 20) + `"}]}`))
			all := make([]client, clients)
			for i := range all {
				all[i] = dial(b, address)
			}
			for b.Loop() {
				var wg sync.WaitGroup
				for _, c := range all {
					wg.Go(func() {
						c.send(b, request)
						c.end(b)
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.N)*clients/b.Elapsed().Seconds(), "runs/s")
		})
	}
}
