package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/google/uuid"
)

// EncodeBody returns what a store keeps of a message: the fields of its role, its name and its metadata, as
// compact JSON without anything that is empty. The role and the rest of the header belong into columns of
// their own; [DecodeBody] puts both together again.
func EncodeBody(m Message) ([]byte, error) {
	return encode(m, false)
}

// MarshalJSON prints the message in its public form, with explicit nulls.
func (m *System) MarshalJSON() ([]byte, error) { return encode(m, true) }

// MarshalJSON prints the message in its public form, with explicit nulls.
func (m *User) MarshalJSON() ([]byte, error) { return encode(m, true) }

// MarshalJSON prints the message in its public form, with explicit nulls.
func (m *Assistant) MarshalJSON() ([]byte, error) { return encode(m, true) }

// MarshalJSON prints the message in its public form, with explicit nulls.
func (m *Tool) MarshalJSON() ([]byte, error) { return encode(m, true) }

// MarshalJSON prints the message in its public form, with explicit nulls.
func (m *Reasoning) MarshalJSON() ([]byte, error) { return encode(m, true) }

// MarshalJSON prints the block in its public form.
func (b Text) MarshalJSON() ([]byte, error) { return encodeBlock(b) }

// MarshalJSON prints the block in its public form, which is flat: type, source, media_type.
func (b Media) MarshalJSON() ([]byte, error) { return encodeBlock(b) }

// MarshalJSON prints the messages in their public form; a nil list is [].
func (l List) MarshalJSON() ([]byte, error) {
	o := object{full: true, buf: []byte{'['}}
	for i, m := range l {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		o.message(m)
	}
	return append(o.buf, ']'), o.err
}

func encode(m Message, full bool) ([]byte, error) {
	o := object{full: full, buf: make([]byte, 0, 256)}
	o.message(m)
	if o.err != nil {
		return nil, o.err
	}
	return o.buf, nil
}

func encodeBlock(b Block) ([]byte, error) {
	o := object{full: true}
	o.block(b)
	return o.buf, o.err
}

// An object prints JSON objects by appending to buf. In the full form fields without a value are null, else
// they are left out.
type object struct {
	buf  []byte
	full bool
	err  error // the first one
}

func (o *object) message(m Message) {
	if m == nil {
		o.fail(errors.New("message: nil message"))
		return
	}
	o.open()
	h := m.Head()
	if o.full {
		o.text("role", string(m.Role()))
		o.uuid("id", h.ID)
		o.uuid("session_id", h.SessionID)
		o.optionalUUID("run_id", h.RunID)
		o.optionalUUID("checkpoint_id", h.CheckpointID)
		o.time("created_at", h.CreatedAt)
	}
	m.encode(o)
	o.optional("name", h.Name)
	if len(h.Metadata) == 0 || string(h.Metadata) == "null" {
		o.null("metadata")
	} else if clean := o.raw("metadata", h.Metadata); clean != nil && clean[0] != '{' {
		o.fail(errors.New("message: metadata: must be an object"))
	}
	o.close()
}

func (m *System) encode(o *object) { o.text("content", m.Content) }

func (m *User) encode(o *object) {
	if !o.full {
		switch {
		case len(m.Content) == 0:
			return
		case len(m.Content) == 1:
			// By far the most common message; the decoder knows the short form anyway.
			if t, ok := m.Content[0].(Text); ok {
				o.always("content", t.Value)
				return
			}
		}
	}
	o.key("content")
	o.buf = append(o.buf, '[')
	for i, b := range m.Content {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		o.block(b)
	}
	o.buf = append(o.buf, ']')
}

func (m *Assistant) encode(o *object) {
	o.optional("content", m.Content)
	if len(m.ToolCalls) == 0 && !o.full {
		return
	}
	o.key("tool_calls")
	o.buf = append(o.buf, '[')
	for i, c := range m.ToolCalls {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		o.open()
		o.text("id", c.ID)
		o.text("name", c.Name)
		if len(c.Arguments) > 0 {
			o.raw("arguments", c.Arguments)
		} else if o.full {
			o.raw("arguments", emptyArguments)
		}
		o.close()
	}
	o.buf = append(o.buf, ']')
}

var emptyArguments = json.RawMessage("{}")

func (m *Tool) encode(o *object) {
	o.text("tool_call_id", m.ToolCallID)
	o.optionalUUID("parent_message_id", m.ParentMessageID)
	if m.Content == nil {
		o.null("content")
	} else {
		o.always("content", *m.Content) // an empty output is an output
	}
	o.optional("error", m.Error)
}

func (m *Reasoning) encode(o *object) {
	o.text("content", m.Content)
	o.optional("signature", m.Signature)
}

func (o *object) block(b Block) {
	o.open()
	switch b := b.(type) {
	case Text:
		o.always("type", "text")
		o.always("value", b.Value)
	case Media:
		// What cannot be decoded must not get into a store.
		if !b.Kind.valid() || !b.Source.Type.valid() {
			o.fail(fmt.Errorf("message: media of kind %q with a source of type %q", b.Kind, b.Source.Type))
		}
		o.always("type", string(b.Kind))
		o.key("source")
		o.open()
		o.always("type", string(b.Source.Type))
		o.always("value", b.Source.Value)
		o.close()
		o.always("media_type", b.MediaType)
	default:
		o.fail(fmt.Errorf("message: unknown block %T", b))
	}
	o.close()
}

func (o *object) open()  { o.buf = append(o.buf, '{') }
func (o *object) close() { o.buf = append(o.buf, '}') }

func (o *object) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

func (o *object) key(name string) {
	if o.buf[len(o.buf)-1] != '{' {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(append(append(o.buf, '"'), name...), '"', ':')
}

func (o *object) null(name string) {
	if o.full {
		o.key(name)
		o.buf = append(o.buf, "null"...)
	}
}

// always prints a field whatever it holds.
func (o *object) always(name, value string) {
	o.key(name)
	o.buf = appendString(o.buf, value)
}

// text prints a field that is never null.
func (o *object) text(name, value string) {
	if value != "" || o.full {
		o.always(name, value)
	}
}

// optional prints a field that is null when it is empty.
func (o *object) optional(name, value string) {
	if value == "" {
		o.null(name)
		return
	}
	o.always(name, value)
}

func (o *object) uuid(name string, id uuid.UUID) {
	o.key(name)
	o.buf = wire.AppendUUID(append(o.buf, '"'), id)
	o.buf = append(o.buf, '"')
}

func (o *object) optionalUUID(name string, id uuid.UUID) {
	if id == uuid.Nil {
		o.null(name)
		return
	}
	o.uuid(name, id)
}

func (o *object) time(name string, t time.Time) {
	t = t.UTC()
	if !printable(t) {
		o.fail(fmt.Errorf("message: %s: year %d cannot be printed", name, t.Year()))
		return
	}
	o.key(name)
	o.buf = append(t.AppendFormat(append(o.buf, '"'), time.RFC3339Nano), '"')
}

// printable reports whether RFC 3339, which has years of four digits, has a form for t.
func printable(t time.Time) bool { return 0 <= t.Year() && t.Year() <= 9999 }

// raw prints JSON that someone else made and returns it as printed. It is cleaned because one bad value would
// spoil the whole message.
func (o *object) raw(name string, value json.RawMessage) []byte {
	clean, err := wire.Clean(value)
	if err != nil {
		o.fail(fmt.Errorf("message: %s: %w", name, err))
		return nil
	}
	o.key(name)
	o.buf = append(o.buf, clean...)
	return clean
}

const hex = "0123456789abcdef"

// appendString appends s as a JSON string, exactly as encoding/json does without HTML escaping.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + n
		case r == '\u2028' || r == '\u2029': // line ends in JavaScript, but not in JSON
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hex[r&15])
			start = i + n
		}
		i += n
	}
	return append(append(dst, s[start:]...), '"')
}
