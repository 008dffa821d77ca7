package httpapitest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi"
)

// MaxLine is how long a line of a stream may be, in bytes: the snapshot of a long conversation is
// one line.
const MaxLine = 64 << 20

// Events reads a stream of server-sent events, such as the body of POST /v1/runs: each event with
// its number. Only the three kinds that begin and end a run say whose they are.
//
// It ends with the stream. An error is the last thing it yields, beside a zero event: an
// [*httpapi.Error] if the server said why the stream ends before the run, [io.ErrUnexpectedEOF]
// if it broke off within an event, or what is wrong with what the server sent. It does not close r.
func Events(r io.Reader) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, MaxLine)
		var f frame
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) > 0 {
				f.add(line)
				continue
			}
			if e, ok, err := f.event(); err != nil {
				yield(event.Event{}, err)
				return
			} else if ok && !yield(e, nil) {
				return
			}
			f = frame{}
		}
		err := lines.Err()
		if err == nil && f.fields > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			yield(event.Event{}, fmt.Errorf("httpapitest: %w", err))
		}
	}
}

// frame is one server-sent event.
type frame struct {
	name, id string
	data     []byte
	fields   int
}

// add takes a line; a comment adds nothing.
func (f *frame) add(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "":
		return
	case "event":
		f.name = string(value)
	case "id":
		f.id = string(value)
	case "data":
		if f.data != nil {
			f.data = append(f.data, '\n')
		}
		f.data = append(f.data, value...)
	}
	f.fields++
}

// event returns what the frame says; ok is false if it says nothing.
func (f *frame) event() (e event.Event, ok bool, err error) {
	if f.data == nil {
		return e, false, nil
	}
	if f.name == "error" {
		var e httpapi.Error
		if err := json.Unmarshal(f.data, &e); err != nil {
			return event.Event{}, false, fmt.Errorf("httpapitest: %w", err)
		}
		return event.Event{}, false, &e
	}
	if e, err = event.Unmarshal(f.data); err != nil {
		return e, false, fmt.Errorf("httpapitest: %w", err)
	}
	if string(e.Data.Kind()) != f.name {
		return e, false, fmt.Errorf("httpapitest: an event %q holds a %s", f.name, e.Data.Kind())
	}
	if e.Seq, err = strconv.ParseInt(f.id, 10, 64); err != nil {
		return e, false, fmt.Errorf("httpapitest: the event %q has the id %q", f.name, f.id)
	}
	return e, true, nil
}

// Kinds returns the kinds of a stream's events in order: what most tests compare.
func Kinds(r io.Reader) (kinds []event.Kind, err error) {
	for e, failure := range Events(r) {
		if err = failure; err == nil {
			kinds = append(kinds, e.Data.Kind())
		}
	}
	return kinds, err
}
