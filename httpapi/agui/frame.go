package agui

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/internal/wire"
)

// frames appends events as server-sent events, one data line each. If a value has no JSON, none of them is to be
// sent.
type frames struct {
	b   []byte
	at  time.Time // of the events
	err error
}

// begin begins an event.
func (f *frames) begin(kind string) {
	f.b = append(append(append(f.b, `data: {"type":"`...), kind...), `","timestamp":`...)
	f.b = strconv.AppendInt(f.b, f.at.UnixMilli(), 10)
}

// end ends the event.
func (f *frames) end() {
	f.b = append(f.b, "}\n\n"...)
}

func (f *frames) name(name string) {
	f.b = append(append(append(f.b, `,"`...), name...), `":`...)
}

func (f *frames) text(name, value string) {
	f.name(name)
	f.b = wire.AppendText(f.b, value)
}

func (f *frames) id(name string, id uuid.UUID) {
	f.name(name)
	f.b = append(wire.AppendUUID(append(f.b, '"'), id), '"')
}

// raw appends JSON on one line, whatever it looks like.
func (f *frames) raw(name string, value json.RawMessage) {
	f.name(name)
	w := bytes.NewBuffer(f.b)
	if err := json.Compact(w, value); err != nil {
		f.fail(err)
		return
	}
	f.b = w.Bytes()
}

func (f *frames) value(name string, v any) {
	f.name(name)
	text, err := wire.Marshal(v)
	if err != nil {
		f.fail(err)
	}
	f.b = append(f.b, text...)
}

func (f *frames) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// identified are the kinds of events that have an id and nothing else.
func (f *frames) identified(kind, name string, id uuid.UUID) {
	f.begin(kind)
	f.id(name, id)
	f.end()
}
