package modeltest

import (
	"bufio"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/everstep-go/everstep/message"
)

// Fuzz feeds an adapter what no server should send. It must not panic, must end in a Done or an
// error, with nothing after it, and must not tell the key.
func Fuzz(f *testing.F, dialects map[string]Dialect, seeds ...string) {
	for name, d := range dialects {
		for _, body := range append(seeds, d.Reply, d.half(), d.half()+"event: error\ndata: [\n\n", "<html>"+Key) {
			f.Add(name, 200, "text/event-stream", body)
		}
		f.Add(name, 429, "application/json", strings.ReplaceAll(d.Refusal, "%s", Key))
		f.Add(name, 200, "application/json", strings.ReplaceAll(d.Refusal, "%s", Key))
	}
	f.Fuzz(func(t *testing.T, name string, status int, contentType, body string) {
		d, ok := dialects[name]
		if !ok || status < 200 || status > 599 {
			return
		}
		m, err := d.New("http://localhost", answering(status, http.Header{"Content-Type": {contentType}}, strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		var last message.Delta
		ended := false
		for delta, err := range m.Generate(t.Context(), hello()) {
			if ended {
				t.Fatalf("%v, %v after the end", delta, err)
			}
			if (delta == nil) == (err == nil) {
				t.Fatalf("%v beside %v", delta, err)
			}
			if err != nil && strings.Contains(err.Error(), Key) {
				t.Fatalf("the key is in %v", err)
			}
			_, done := delta.(message.Done)
			last, ended = delta, err != nil || done
		}
		if !ended {
			t.Fatalf("it ended with %v", last)
		}
	})
}

// BenchmarkStream measures how long an adapter takes for a reply of 1,000 text deltas, and how
// often that is the time for reading the same lines without it. The event of one delta is repeated.
func BenchmarkStream(b *testing.B, d Dialect) {
	const deltas = 1000
	begun := d.half()
	events := strings.SplitAfter(begun, "\n\n")
	body := begun + strings.Repeat(events[len(events)-2], deltas-1) + d.Reply[len(begun):]
	m, err := d.New("http://localhost", &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: sse, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})})
	if err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		n := 0
		for delta, err := range m.Generate(b.Context(), hello()) {
			if err != nil {
				b.Fatal(err)
			}
			if _, ok := delta.(message.TextDelta); ok {
				n++
			}
		}
		if n != deltas {
			b.Fatalf("%d deltas", n)
		}
	}
	b.StopTimer()
	runtime.ReadMemStats(&after)
	each := float64(b.Elapsed()) / float64(b.N*deltas)
	start := time.Now()
	for range b.N {
		for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
			_ = lines.Bytes()
		}
	}
	bare := float64(time.Since(start)) / float64(b.N*deltas)
	b.ReportMetric(each/float64(time.Microsecond), "µs/delta")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N*deltas), "allocs/delta")
	b.ReportMetric(each/bare, "×bare")
}
