package a2a

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"runtime/debug"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/everstep-go/everstep/internal/sse"
	"github.com/everstep-go/everstep/internal/wire"
)

// frame is one server-sent event: its data, and its name if it has one.
type frame struct {
	name string
	data any
}

func (f frame) append(b []byte) ([]byte, error) {
	text, err := wire.Marshal(f.data)
	if err != nil {
		return b, err
	}
	if f.name != "" {
		b = append(append(append(b, "event: "...), f.name...), '\n')
	}
	return append(append(append(b, "data: "...), text...), "\n\n"...), nil
}

// sendEvents answers with the updates of a task, until there are no more or the client is gone.
func (s *Server) sendEvents(w http.ResponseWriter, r *http.Request, gone context.CancelFunc, events iter.Seq2[sdk.Event, error], data func(sdk.Event) any, failed func(*failure) (name string, data any)) {
	stream := sse.Open(w, sse.Options{KeepAlive: s.opts.KeepAlive, WriteTimeout: s.opts.WriteTimeout, Gone: gone})
	defer stream.Close()
	fail := func(err error) {
		name, data := failed(s.refuse(r, err))
		_ = stream.Send(frame{name, data}.append) // it is made of texts
	}
	defer func() {
		// An open stream is never torn down: some clients take that for more than their end.
		if v := recover(); v != nil {
			fail(fmt.Errorf("a2a: panic: %v\n%s", v, debug.Stack()))
		}
	}()
	for e, err := range events {
		if err == nil {
			err = stream.Send(frame{data: data(e)}.append)
		}
		if r.Context().Err() != nil {
			return
		}
		if err != nil {
			fail(err)
			return
		}
	}
}
