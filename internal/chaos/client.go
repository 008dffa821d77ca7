//go:build unix

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/httpapitest"
)

// patience is how long a client waits for an answer.
const patience = 5 * time.Second

// object is JSON on its way to a server.
type object = map[string]any

// request sends a request to a replica. The op it returns has the answer's code.
func (w *workload) request(ctx context.Context, o Op, method, path string, body any, header ...string) (*http.Response, Op) {
	r := w.h.replicas[o.Replica]
	o.From = time.Now()
	defer func() { o.To = time.Now() }()
	l := r.life()
	if l == nil {
		wait(ctx, 50*time.Millisecond) // as one would before another try
		o.To = time.Now()
		return nil, o
	}
	o.Life = l.name
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // of our own making
	}
	req, err := http.NewRequestWithContext(ctx, method, l.url+path, bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := w.client.Do(req)
	o.To = time.Now()
	if err != nil {
		wait(ctx, 50*time.Millisecond)
		return nil, o
	}
	o.Code = res.StatusCode
	return res, o
}

// call sends a request, records it, and decodes the answer into out, or returns the code of its error.
func (w *workload) call(ctx context.Context, o Op, method, path string, body, out any) (Op, int) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	res, o := w.request(ctx, o, method, path, body)
	code := 0
	if res != nil {
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		o.To = time.Now()
		var refused struct{ Code int }
		switch {
		case err != nil:
			o.Code = 0 // it may have been cut off
		case res.StatusCode >= 400:
			if json.Unmarshal(text, &refused) == nil {
				code = refused.Code
			}
		case out != nil:
			if json.Unmarshal(text, out) != nil {
				w.h.history.fault("%s answers %q to %s %s", o.Life, text, method, path)
			}
		}
	}
	if kept, ok := out.(*keptRun); ok {
		o.Status = kept.Status
	}
	w.h.history.op(o)
	return o, code
}

type keptRun struct{ Status string }

// begin starts a detached run, and tries under the same id until it is known whether it is one.
func (w *workload) begin(ctx context.Context, c *chance, run uuid.UUID, body object) bool {
	body["run_id"] = run
	tried := false
	for ctx.Err() == nil {
		o, code := w.call(ctx, Op{Name: "start", Run: run, Replica: c.replica()}, "POST", "/v1/runs/start", body, nil)
		switch {
		case o.Accepted(), tried && code == httpapi.CodeRunExists:
			return true
		case o.Code >= 400 && o.Code < 500:
			if code == httpapi.CodeRunExists {
				w.h.history.fault("%s says that run %s exists, which nobody started", o.Life, run)
			}
			return false
		}
		tried = true
	}
	return false
}

// cancel tries until it is acknowledged.
func (w *workload) cancel(ctx context.Context, c *chance, run uuid.UUID) {
	for ctx.Err() == nil {
		o, _ := w.call(ctx, Op{Name: "cancel", Run: run, Replica: c.replica()}, "PUT", "/v1/runs/"+run.String()+"/cancel", nil, nil)
		if o.Code > 0 && o.Code < 500 {
			return
		}
	}
}

// get asks how a run is.
func (w *workload) get(ctx context.Context, c *chance, run uuid.UUID) {
	var kept keptRun
	w.call(ctx, Op{Name: "get", Run: run, Replica: c.replica()}, "GET", "/v1/runs/"+run.String(), nil, &kept)
}

// observe follows a run to its last event, from replica to replica, and returns that event. Each
// connection takes the numbers up where the one before it ended.
func (w *workload) observe(ctx context.Context, c *chance, run uuid.UUID, whole bool) (end event.Data) {
	s := Stream{Observer: w.observer(), Run: run, Whole: whole}
	defer func() {
		s.GaveUp = end == nil && w.ctx.Err() == nil
		w.h.history.stream(s)
	}()
	last := int64(-1)
	if whole {
		last = 0
	}
	for ctx.Err() == nil {
		var header []string
		if last >= 0 {
			header = []string{"Last-Event-ID", strconv.FormatInt(last, 10)}
		}
		connection, hangUp := context.WithTimeout(ctx, c.between(500*time.Millisecond, 10*time.Second))
		res, o := w.request(connection, Op{Name: "observe", Run: run, Replica: c.replica()}, "GET", "/v1/runs/"+run.String()+"/events", nil, header...)
		if res == nil || res.StatusCode != http.StatusOK {
			if res != nil {
				res.Body.Close()
			}
			hangUp()
			if o.Code == http.StatusConflict && !whole && last < 0 {
				last = 0 // it has ended: what is kept of it is to be had
			}
			continue
		}
		first := true
		for e, err := range httpapitest.Events(res.Body) {
			if err != nil {
				break
			}
			w.h.history.heard(Heard{Observer: s.Observer, Run: run, Replica: o.Replica, Opened: o.To, First: first, At: time.Now(), Event: e})
			first = false
			last = e.Seq
			if event.Terminal(e.Data) {
				end = e.Data
				break
			}
		}
		res.Body.Close()
		hangUp()
		if end != nil {
			return end
		}
	}
	return nil
}

// attach makes an attached run and listens to it. Who loses the connection has lost the run.
func (w *workload) attach(ctx context.Context, c *chance, name string, replica int, run uuid.UUID, body object) event.Data {
	body["run_id"] = run
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	res, o := w.request(ctx, Op{Name: name, Run: run, Replica: replica, Attached: true}, "POST", "/v1/runs", body)
	s := Stream{Observer: w.observer(), Run: run, Whole: true, GaveUp: true}
	var end event.Data
	if res != nil {
		defer res.Body.Close()
		if res.StatusCode == http.StatusOK {
			for e, err := range httpapitest.Events(res.Body) {
				if err != nil {
					break
				}
				w.h.history.heard(Heard{Observer: s.Observer, Run: run, Replica: o.Replica, Opened: o.From, At: time.Now(), Event: e})
				if event.Terminal(e.Data) {
					end = e.Data
				}
			}
		}
	}
	if d, ok := end.(event.RunFinished); ok {
		o.Status = d.Status
	}
	w.h.history.op(o)
	w.h.history.stream(s)
	return end
}
