package message

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/google/uuid"
)

// RoleError says that a message has a role that does not exist.
type RoleError struct {
	Field string // "role"; for a message of a [List] such as [3].role
	Role  Role
}

func (e *RoleError) Error() string {
	return fmt.Sprintf("message: %s: unknown role %q", e.Field, string(e.Role))
}

// FieldError says which field of a message is wrong.
type FieldError struct {
	Field  string // as a path, such as content[1].source.type; in a [List] it begins with the index
	Reason string // such as "must be a string"
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return "message: " + e.Reason
	}
	return "message: " + e.Field + ": " + e.Reason
}

// Unmarshal decodes one message from outside, told by its role. Unknown fields are ignored; ids that are null
// or absent stay zero. User content may also be a plain string, and media may be nested in a "value" field.
//
// The error is a [*RoleError], a [*FieldError], or says that data is not JSON that can be accepted.
func Unmarshal(data []byte) (Message, error) {
	data, err := wire.Clean(data)
	if err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	return unmarshal(data)
}

// DecodeBody is the inverse of [EncodeBody]: h gives what the body does not hold, its name and metadata are
// those of the body. Empty and nil lists are the same, nil.
func DecodeBody(role Role, h Header, body []byte) (Message, error) {
	// Stores may have reformatted the body; cleaning it is cheap when they have not.
	body, err := wire.Clean(body)
	if err != nil {
		return nil, fmt.Errorf("message: body: %w", err)
	}
	if body[0] != '{' {
		return nil, &FieldError{Reason: "must be an object"}
	}
	var f fields
	f.read(body)
	h.Name, h.Metadata = "", nil
	return f.message(role, h, false)
}

// UnmarshalJSON decodes a message of this role; see [Unmarshal].
func (m *System) UnmarshalJSON(data []byte) error { return unmarshalInto(m, data) }

// UnmarshalJSON decodes a message of this role; see [Unmarshal].
func (m *User) UnmarshalJSON(data []byte) error { return unmarshalInto(m, data) }

// UnmarshalJSON decodes a message of this role; see [Unmarshal].
func (m *Assistant) UnmarshalJSON(data []byte) error { return unmarshalInto(m, data) }

// UnmarshalJSON decodes a message of this role; see [Unmarshal].
func (m *Tool) UnmarshalJSON(data []byte) error { return unmarshalInto(m, data) }

// UnmarshalJSON decodes a message of this role; see [Unmarshal].
func (m *Reasoning) UnmarshalJSON(data []byte) error { return unmarshalInto(m, data) }

// UnmarshalJSON decodes a list of messages of any role; see [Unmarshal]. Null is an empty list.
func (l *List) UnmarshalJSON(data []byte) error {
	data, err := wire.Clean(data)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	list, err := readList(data, "", unmarshal)
	if err == nil {
		*l = list
	}
	return err
}

func unmarshalInto[M any, P interface {
	*M
	Message
}](dst P, data []byte) error {
	m, err := Unmarshal(data)
	if err != nil {
		return err
	}
	same, ok := m.(P)
	if !ok {
		return &FieldError{Field: "role", Reason: "must be " + string(dst.Role())}
	}
	*dst = *same
	return nil
}

// within puts the path of a value before the field in an error about it.
func within(path string, err error) error {
	switch e := err.(type) {
	case *FieldError:
		return &FieldError{Field: join(path, e.Field), Reason: e.Reason}
	case *RoleError:
		return &RoleError{Field: join(path, e.Field), Role: e.Role}
	}
	return err
}

func join(path, field string) string {
	if field == "" {
		return path
	}
	return path + "." + field
}

func unmarshal(data []byte) (Message, error) {
	if data[0] != '{' {
		return nil, &FieldError{Reason: "must be an object"}
	}
	var f fields
	f.read(data)
	h, err := f.header()
	if err != nil {
		return nil, err
	}
	role, err := readText(f.role, "role", required)
	if err != nil {
		return nil, err
	}
	return f.message(Role(role), h, required)
}

// fields are the values of a message's object as they stand in the JSON text; nil where there is none. Of
// repeated keys the last wins.
type fields struct {
	role, id, sessionID, runID, checkpointID, createdAt []byte
	content, toolCalls, toolCallID, parentID            []byte
	failure, signature, name, metadata                  []byte
}

func (f *fields) read(data []byte) {
	for key, value := range members(data) {
		switch string(key) {
		case "role":
			f.role = value
		case "id":
			f.id = value
		case "session_id":
			f.sessionID = value
		case "run_id":
			f.runID = value
		case "checkpoint_id":
			f.checkpointID = value
		case "created_at":
			f.createdAt = value
		case "content":
			f.content = value
		case "tool_calls":
			f.toolCalls = value
		case "tool_call_id":
			f.toolCallID = value
		case "parent_message_id":
			f.parentID = value
		case "error":
			f.failure = value
		case "signature":
			f.signature = value
		case "name":
			f.name = value
		case "metadata":
			f.metadata = value
		}
	}
}

func (f *fields) header() (h Header, err error) {
	if h.ID, err = readUUID(f.id, "id"); err != nil {
		return h, err
	}
	if h.SessionID, err = readUUID(f.sessionID, "session_id"); err != nil {
		return h, err
	}
	if h.RunID, err = readUUID(f.runID, "run_id"); err != nil {
		return h, err
	}
	if h.CheckpointID, err = readUUID(f.checkpointID, "checkpoint_id"); err != nil {
		return h, err
	}
	h.CreatedAt, err = readTime(f.createdAt, "created_at")
	return h, err
}

// message builds the message. What must be there from outside may be missing in a body (strict is not
// required), where it was left out because it was empty.
func (f *fields) message(role Role, h Header, strict bool) (Message, error) {
	var err error
	if h.Name, err = readText(f.name, "name", nullable); err != nil {
		return nil, err
	}
	if !absent(f.metadata) {
		if f.metadata[0] != '{' {
			return nil, &FieldError{Field: "metadata", Reason: "must be an object"}
		}
		h.Metadata = bytes.Clone(f.metadata)
	}
	switch role {
	case RoleSystem:
		m := &System{Header: h}
		m.Content, err = readText(f.content, "content", strict)
		return checked(m, err)
	case RoleUser:
		m := &User{Header: h}
		m.Content, err = readContent(f.content, strict)
		return checked(m, err)
	case RoleAssistant:
		m := &Assistant{Header: h}
		if m.Content, err = readText(f.content, "content", nullable); err != nil {
			return nil, err
		}
		m.ToolCalls, err = readList(f.toolCalls, "tool_calls", func(v []byte) (ToolCall, error) {
			return readToolCall(v, strict)
		})
		return checked(m, err)
	case RoleTool:
		m := &Tool{Header: h}
		if m.ToolCallID, err = readText(f.toolCallID, "tool_call_id", strict); err != nil {
			return nil, err
		}
		if m.ParentMessageID, err = readUUID(f.parentID, "parent_message_id"); err != nil {
			return nil, err
		}
		if !absent(f.content) {
			content, err := readText(f.content, "content", required)
			if err != nil {
				return nil, err
			}
			m.Content = &content
		}
		m.Error, err = readText(f.failure, "error", nullable)
		return checked(m, err)
	case RoleReasoning:
		m := &Reasoning{Header: h}
		if m.Content, err = readText(f.content, "content", strict); err != nil {
			return nil, err
		}
		m.Signature, err = readText(f.signature, "signature", nullable)
		return checked(m, err)
	}
	return nil, &RoleError{Field: "role", Role: role}
}

// checked keeps a half-built message from going out beside an error.
func checked(m Message, err error) (Message, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

func readContent(v []byte, strict bool) ([]Block, error) {
	switch {
	case absent(v) && strict:
		return nil, &FieldError{Field: "content", Reason: "is missing"}
	case !absent(v) && v[0] == '"':
		return []Block{Text{Value: unquote(v)}}, nil
	}
	return readList(v, "content", readBlock)
}

func readBlock(v []byte) (Block, error) {
	if v[0] != '{' {
		return nil, &FieldError{Reason: "must be an object"}
	}
	var kind, value, source, mediaType []byte
	for key, v := range members(v) {
		switch string(key) {
		case "type":
			kind = v
		case "value":
			value = v
		case "source":
			source = v
		case "media_type":
			mediaType = v
		}
	}
	name, err := readText(kind, "type", required)
	if err != nil {
		return nil, err
	}
	switch kind := MediaKind(name); kind {
	case "text":
		text, err := readText(value, "value", required)
		if err != nil {
			return nil, err
		}
		return Text{Value: text}, nil
	case Image, Audio, Video, Document:
		if source == nil && !absent(value) && value[0] == '{' {
			for key, v := range members(value) {
				switch string(key) {
				case "source":
					source = v
				case "media_type":
					mediaType = v
				}
			}
		}
		return readMedia(kind, source, mediaType)
	}
	return nil, &FieldError{Field: "type", Reason: "must be text, image, audio, video or document"}
}

func readMedia(kind MediaKind, source, mediaType []byte) (Block, error) {
	if absent(source) {
		return nil, &FieldError{Field: "source", Reason: "is missing"}
	}
	if source[0] != '{' {
		return nil, &FieldError{Field: "source", Reason: "must be an object"}
	}
	var typ, value []byte
	for key, v := range members(source) {
		switch string(key) {
		case "type":
			typ = v
		case "value":
			value = v
		}
	}
	b := Media{Kind: kind}
	t, err := readText(typ, "source.type", required)
	if err != nil {
		return nil, err
	}
	b.Source.Type = SourceType(t)
	if !b.Source.Type.valid() {
		return nil, &FieldError{Field: "source.type", Reason: "must be url or base64"}
	}
	if b.Source.Value, err = readText(value, "source.value", required); err != nil {
		return nil, err
	}
	if b.MediaType, err = readText(mediaType, "media_type", required); err != nil {
		return nil, err
	}
	return b, nil
}

func readToolCall(v []byte, strict bool) (c ToolCall, err error) {
	if v[0] != '{' {
		return c, &FieldError{Reason: "must be an object"}
	}
	var id, name []byte
	for key, v := range members(v) {
		switch string(key) {
		case "id":
			id = v
		case "name":
			name = v
		case "arguments":
			c.Arguments = v
		}
	}
	c.Arguments = bytes.Clone(c.Arguments)
	if c.ID, err = readText(id, "id", strict); err != nil {
		return c, err
	}
	c.Name, err = readText(name, "name", strict)
	return c, err
}

// Whether a field must be there.
const (
	required = true
	nullable = false
)

func absent(v []byte) bool { return v == nil || v[0] == 'n' }

func readText(v []byte, field string, must bool) (string, error) {
	switch {
	case v == nil && must:
		return "", &FieldError{Field: field, Reason: "is missing"}
	case absent(v) && !must:
		return "", nil
	case v[0] != '"':
		return "", &FieldError{Field: field, Reason: "must be a string"}
	}
	return unquote(v), nil
}

func readUUID(v []byte, field string) (uuid.UUID, error) {
	if absent(v) {
		return uuid.Nil, nil
	}
	if v[0] == '"' {
		if id, ok := wire.ParseUUID(unquote(v)); ok {
			return id, nil
		}
	}
	return uuid.Nil, &FieldError{Field: field, Reason: "must be a UUID"}
}

func readTime(v []byte, field string) (time.Time, error) {
	if absent(v) {
		return time.Time{}, nil
	}
	if v[0] == '"' {
		if t, err := time.Parse(time.RFC3339Nano, unquote(v)); err == nil && printable(t.UTC()) {
			return t.UTC(), nil
		}
	}
	return time.Time{}, &FieldError{Field: field, Reason: "must be an RFC 3339 time"}
}

// readList reads an array with one call of read for each element; null and an absent list are nil.
func readList[T any](v []byte, field string, read func(v []byte) (T, error)) ([]T, error) {
	if absent(v) {
		return nil, nil
	}
	if v[0] != '[' {
		return nil, &FieldError{Field: field, Reason: "must be an array"}
	}
	var list []T
	for v := range elements(v) {
		t, err := read(v)
		if err != nil {
			return nil, within(field+"["+strconv.Itoa(len(list))+"]", err)
		}
		list = append(list, t)
	}
	return list, nil
}

// The functions below walk JSON that wire.Clean has accepted, so they need not look for white space and
// mistakes. They give slices of it; nothing is copied.

// members yields the keys, decoded, and the values of an object.
func members(obj []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for rest := obj[1:]; rest[0] != '}'; {
			n := length(rest)
			key := rest[1 : n-1]
			if bytes.IndexByte(key, '\\') >= 0 {
				key = []byte(unquote(rest[:n]))
			}
			rest = rest[n+1:]
			n = length(rest)
			if !yield(key, rest[:n:n]) {
				return
			}
			if rest = rest[n:]; rest[0] == ',' {
				rest = rest[1:]
			}
		}
	}
}

// elements yields the values of an array.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := array[1:]; rest[0] != ']'; {
			n := length(rest)
			if !yield(rest[:n:n]) {
				return
			}
			if rest = rest[n:]; rest[0] == ',' {
				rest = rest[1:]
			}
		}
	}
}

// length returns the length of the value at the start of data.
func length(data []byte) int {
	depth := 0
	for i := 0; i < len(data); {
		switch data[i] {
		case '"':
			i++
			for data[i] != '"' {
				if data[i] == '\\' {
					i++
				}
				i++
			}
			i++
			if depth == 0 {
				return i
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 { // ends the container around a number or a literal
				return i
			}
			depth--
			i++
			if depth == 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
			i++
		default:
			i++
		}
	}
	return len(data)
}

// unquote decodes a string.
func unquote(v []byte) string {
	v = v[1 : len(v)-1]
	i := bytes.IndexByte(v, '\\')
	if i < 0 {
		return string(v)
	}
	var s strings.Builder
	s.Grow(len(v))
	for ; i >= 0; i = bytes.IndexByte(v, '\\') {
		s.Write(v[:i])
		c := v[i+1]
		v = v[i+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := unit(v)
			v = v[4:]
			if utf16.IsSurrogate(r) { // never half a pair
				r = utf16.DecodeRune(r, unit(v[2:]))
				v = v[6:]
			}
			s.WriteRune(r)
			continue
		}
		s.WriteByte(c)
	}
	s.Write(v)
	return s.String()
}

// unit reads four hexadecimal digits.
func unit(v []byte) rune {
	r, _ := strconv.ParseUint(string(v[:4]), 16, 16)
	return rune(r)
}
