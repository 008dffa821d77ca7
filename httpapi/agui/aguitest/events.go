package aguitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Event is one event: the members of its JSON, numbers as json.Number.
type Event map[string]any

// Type returns the type, such as TEXT_MESSAGE_START.
func (e Event) Type() string { return e.Text("type") }

// Text returns a member that is a text, empty if it is not.
func (e Event) Text(name string) string {
	text, _ := e[name].(string)
	return text
}

// Has reports whether there is a member of that name.
func (e Event) Has(name string) bool {
	_, ok := e[name]
	return ok
}

// maxFrame is how many bytes an event may have: clients break off when one that has not ended has more.
const maxFrame = 10 << 20

// Events reads the body of an answer: each event as it comes. An error is the last thing it yields, beside nil:
// what the body, or an event in it, breaks of the rules, or [io.ErrUnexpectedEOF] if it ends before the run
// does. It does not close r.
func Events(r io.Reader, d Dialect) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		c := NewChecker(d)
		var buf []byte
		searched := 0 // how much of buf has no end of an event
		chunk := make([]byte, 32<<10)
		for {
			n, err := r.Read(chunk)
			buf = append(buf, chunk[:n]...)
			for {
				i := bytes.Index(buf[searched:], []byte("\n\n"))
				if i < 0 {
					searched = max(len(buf)-1, 0)
					break
				}
				frame := buf[:searched+i]
				buf, searched = buf[searched+i+2:], 0
				e, wrong := parse(frame)
				if wrong == nil && e != nil {
					wrong = c.Add(e)
				}
				if wrong != nil {
					yield(nil, wrong)
					return
				}
				if e != nil && !yield(e, nil) {
					return
				}
			}
			if len(buf) > maxFrame {
				yield(nil, fmt.Errorf("aguitest: an event has more than %d bytes", maxFrame))
				return
			}
			switch {
			case errors.Is(err, io.EOF):
				if len(buf) > 0 {
					err = fmt.Errorf("aguitest: the body ends within an event: %w", io.ErrUnexpectedEOF)
				} else {
					err = c.End()
				}
				if err != nil {
					yield(nil, err)
				}
				return
			case err != nil:
				yield(nil, fmt.Errorf("aguitest: %w", err))
				return
			}
		}
	}
}

// Read returns all events of a body.
func Read(r io.Reader, d Dialect) (events []Event, err error) {
	for e, failure := range Events(r, d) {
		if err = failure; err == nil {
			events = append(events, e)
		}
	}
	return events, err
}

// Types returns the types of events in order: what most tests compare.
func Types(events []Event) []string {
	types := make([]string, len(events))
	for i, e := range events {
		types[i] = e.Type()
	}
	return types
}

// parse reads a frame, nil if it holds comments only.
func parse(frame []byte) (Event, error) {
	if bytes.ContainsRune(frame, '\r') {
		return nil, fmt.Errorf("aguitest: a line ends in CR: %q", frame)
	}
	var data []byte
	for line := range bytes.SplitSeq(frame, []byte("\n")) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "", "event", "id", "retry": // which clients ignore
		case "data":
			if data != nil {
				return nil, fmt.Errorf("aguitest: an event has two data lines: %q", frame)
			}
			data = bytes.TrimPrefix(value, []byte(" "))
			if len(data) == 0 {
				return nil, fmt.Errorf("aguitest: an event without data: %q", frame)
			}
		default:
			return nil, fmt.Errorf("aguitest: a line is none of server-sent events: %q", line)
		}
	}
	if data == nil {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var e Event
	if err := d.Decode(&e); err != nil || e == nil {
		return nil, fmt.Errorf("aguitest: an event is no object: %q", data)
	}
	if d.More() {
		return nil, fmt.Errorf("aguitest: there is more than one object in an event: %q", data)
	}
	return e, nil
}
