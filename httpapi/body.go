package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// read returns the whole body, if it is not too large.
func (r *request) read() ([]byte, error) {
	body := io.Reader(r.Body)
	if r.limit >= 0 {
		body = http.MaxBytesReader(r.w, r.Body, r.limit)
	}
	text, err := io.ReadAll(body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); err != nil && !tooLarge {
		return nil, badRequest("the body could not be read to its end")
	}
	return text, err
}

// An object is a JSON object of a body on its way to Go values. Its methods take one member
// each, by name; null counts as left out. The first member whose shape is wrong is kept as the
// fault of the whole body.
type object struct {
	path    string // of the object, with a dot behind it; empty for the body
	members map[string]json.RawMessage
	fault   *error
}

func newObject(text []byte) (*object, error) {
	o := &object{fault: new(error)}
	if err := json.Unmarshal(text, &o.members); err != nil || o.members == nil {
		return nil, shapeError("the body", "must be an object")
	}
	return o, nil
}

func shapeError(path, reason string) *Error {
	return &Error{Code: CodeWrongShape, Message: path + ": " + reason}
}

func (o *object) wrong(name, reason string) {
	if *o.fault == nil {
		*o.fault = shapeError(o.path+name, reason)
	}
}

// raw returns a member, nil if it is null or left out.
func (o *object) raw(name string) json.RawMessage {
	if value := o.members[name]; string(value) != "null" {
		return value
	}
	return nil
}

// id returns a UUID, uuid.Nil if it is left out.
func (o *object) id(name string) uuid.UUID {
	value := o.raw(name)
	if value == nil {
		return uuid.Nil
	}
	var text string
	id, ok := uuid.Nil, value[0] == '"' && json.Unmarshal(value, &text) == nil
	if ok {
		id, ok = wire.ParseUUID(text)
	}
	if !ok || id == uuid.Nil {
		o.wrong(name, "must be a UUID")
	}
	return id
}

// text returns a string that must be there.
func (o *object) text(name string) (text string) {
	if value := o.raw(name); value == nil || json.Unmarshal(value, &text) != nil {
		o.wrong(name, "must be a string")
	}
	return text
}

// document returns an object as it is, nil if it is left out.
func (o *object) document(name string) json.RawMessage {
	value := o.raw(name)
	if value != nil && value[0] != '{' {
		o.wrong(name, "must be an object")
	}
	return value
}

// each calls f for the objects of an array, with the path of each. It reports whether there is
// an array.
func (o *object) each(name string, f func(*object)) bool {
	value := o.raw(name)
	if value == nil {
		return false
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		o.wrong(name, "must be an array")
	}
	for i, value := range list {
		item := &object{path: fmt.Sprintf("%s%s[%d].", o.path, name, i), fault: o.fault}
		if json.Unmarshal(value, &item.members) != nil || item.members == nil {
			o.wrong(fmt.Sprintf("%s[%d]", name, i), "must be an object")
			break
		}
		f(item)
	}
	return true
}

// enum returns one of the values, or the empty one if it is left out.
func enum[T ~string](o *object, name string, values ...T) T {
	if o.raw(name) == nil {
		return ""
	}
	text := T(o.text(name))
	if !slices.Contains(values, text) {
		o.wrong(name, fmt.Sprintf("%q is none of %q", text, values))
	}
	return text
}

// optional returns a value that is given, null too, or left out.
func optional[T any](o *object, name string) (value react.Optional[T]) {
	if _, given := o.members[name]; !given {
		return value
	}
	var v T
	o.decode(name, &v)
	return react.Set(v)
}

func (o *object) decode(name string, v any) {
	if err := json.Unmarshal(o.members[name], v); err != nil {
		field, reason := name, err.Error()
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			field, reason = strings.TrimSuffix(name+"."+e.Field, "."), "must be "+kindOf(e.Type)
		}
		o.wrong(field, strings.TrimPrefix(reason, "react: "))
	}
}

// model returns a model that is given, null too, or left out.
func (o *object) model(name string) react.Optional[*react.ModelConfig] {
	model := optional[*react.ModelConfig](o, name)
	if o.raw(name) != nil {
		// What the parameters would let through: any JSON, and null for an empty string.
		var strict struct {
			Override struct {
				Params struct {
					Stop     []*string                  `json:"stop_sequences"`
					Provider map[string]json.RawMessage `json:"provider_params"`
				} `json:"inference_params"`
			} `json:"override"`
		}
		o.decode(name, &strict)
		if slices.Contains(strict.Override.Params.Stop, nil) {
			o.wrong(name+".override.inference_params.stop_sequences", "must be an array of strings")
		}
	}
	return model
}

// kindOf names the JSON that a Go type is made of.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer that is not negative"
	}
	return "an integer"
}

// sent are the members of a message that clients decide (contract 6.5, R49).
var sent = []string{"id", "role", "content", "tool_call_id", "parent_message_id", "error", "metadata"}

// message returns the object as a message that a client may send.
func (o *object) message() message.Message {
	enum(o, "role", message.RoleSystem, message.RoleUser, message.RoleTool)
	o.id("id")
	o.id("parent_message_id")
	if *o.fault != nil {
		return nil
	}
	members := map[string]json.RawMessage{}
	for _, name := range sent {
		if value, ok := o.members[name]; ok {
			members[name] = value
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		o.wrong("", err.Error())
		return nil
	}
	m, err := message.Unmarshal(text)
	if err != nil {
		if e, ok := errors.AsType[*message.FieldError](err); ok {
			o.wrong(e.Field, e.Reason)
		} else {
			o.wrong("role", "must be system, user or tool")
		}
	}
	return m
}
