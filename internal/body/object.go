package body

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// An Object is a JSON object of a body on its way to Go values. Its methods take one member
// each, by name; null counts as left out. The first member whose shape is wrong is kept as the
// fault of the whole body.
type Object struct {
	path    string // of the object, with a dot behind it; empty for the body
	members map[string]json.RawMessage
	fault   *error
}

// Parse reads the text of a body, which must be an object. See [wire.Clean] for what it may hold.
func Parse(text []byte) (*Object, error) {
	o := &Object{fault: new(error)}
	if err := json.Unmarshal(text, &o.members); err != nil || o.members == nil {
		return nil, shapeError("the body", "must be an object")
	}
	return o, nil
}

func shapeError(path, reason string) *Error { return &Error{WrongShape, path + ": " + reason} }

// Fault returns what is wrong with the body, as far as it was read: an [*Error].
func (o *Object) Fault() error { return *o.fault }

// Wrong says that the shape of a member is wrong.
func (o *Object) Wrong(name, reason string) {
	if *o.fault == nil {
		*o.fault = shapeError(o.path+name, reason)
	}
}

// Given reports whether there is a member of that name, null too.
func (o *Object) Given(name string) bool {
	_, given := o.members[name]
	return given
}

// Raw returns a member, nil if it is null or left out.
func (o *Object) Raw(name string) json.RawMessage {
	if value := o.members[name]; string(value) != "null" {
		return value
	}
	return nil
}

// ID returns a UUID, uuid.Nil if it is left out.
func (o *Object) ID(name string) uuid.UUID {
	value := o.Raw(name)
	if value == nil {
		return uuid.Nil
	}
	var text string
	id, ok := uuid.Nil, value[0] == '"' && json.Unmarshal(value, &text) == nil
	if ok {
		id, ok = wire.ParseUUID(text)
	}
	if !ok || id == uuid.Nil {
		o.Wrong(name, "must be a UUID")
	}
	return id
}

// Text returns a string that must be there.
func (o *Object) Text(name string) (text string) {
	if value := o.Raw(name); value == nil || json.Unmarshal(value, &text) != nil {
		o.Wrong(name, "must be a string")
	}
	return text
}

// Document returns an object as it is, nil if it is left out.
func (o *Object) Document(name string) json.RawMessage {
	value := o.Raw(name)
	if value != nil && value[0] != '{' {
		o.Wrong(name, "must be an object")
	}
	return value
}

// Object returns a member that is an object, nil if it is left out or something else.
func (o *Object) Object(name string) *Object {
	item := &Object{path: o.path + name + ".", fault: o.fault}
	if value := o.Raw(name); value == nil || json.Unmarshal(value, &item.members) != nil {
		return nil
	}
	return item
}

// Each calls f for the objects of an array, with the path of each. It reports whether there is
// an array.
func (o *Object) Each(name string, f func(*Object)) bool {
	value := o.Raw(name)
	if value == nil {
		return false
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		o.Wrong(name, "must be an array")
	}
	for i, value := range list {
		item := &Object{path: fmt.Sprintf("%s%s[%d].", o.path, name, i), fault: o.fault}
		if json.Unmarshal(value, &item.members) != nil || item.members == nil {
			o.Wrong(fmt.Sprintf("%s[%d]", name, i), "must be an object")
			break
		}
		f(item)
	}
	return true
}

// Enum returns one of the values, or the empty one if it is left out.
func Enum[T ~string](o *Object, name string, values ...T) T {
	if o.Raw(name) == nil {
		return ""
	}
	text := T(o.Text(name))
	if !slices.Contains(values, text) {
		o.Wrong(name, fmt.Sprintf("%q is none of %q", text, values))
	}
	return text
}

// Optional returns a value that is given, null too, or left out.
func Optional[T any](o *Object, name string) (value react.Optional[T]) {
	if !o.Given(name) {
		return value
	}
	var v T
	o.Decode(name, &v)
	return react.Set(v)
}

// Decode reads a member into a Go value.
func (o *Object) Decode(name string, v any) {
	if err := json.Unmarshal(o.members[name], v); err != nil {
		field, reason := name, err.Error()
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			field, reason = strings.TrimSuffix(name+"."+e.Field, "."), "must be "+kindOf(e.Type)
		}
		o.Wrong(field, strings.TrimPrefix(reason, "react: "))
	}
}

// Model returns a model that is given, null too, or left out.
func (o *Object) Model(name string) react.Optional[*react.ModelConfig] {
	model := Optional[*react.ModelConfig](o, name)
	if o.Raw(name) != nil {
		// What the parameters would let through: any JSON, and null for an empty string.
		var strict struct {
			Override struct {
				Params struct {
					Stop     []*string                  `json:"stop_sequences"`
					Provider map[string]json.RawMessage `json:"provider_params"`
				} `json:"inference_params"`
			} `json:"override"`
		}
		o.Decode(name, &strict)
		if slices.Contains(strict.Override.Params.Stop, nil) {
			o.Wrong(name+".override.inference_params.stop_sequences", "must be an array of strings")
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

// Sent are the members of a message that clients decide (contract 6.5, R49).
var Sent = []string{"id", "role", "content", "tool_call_id", "parent_message_id", "error", "metadata"}

// Message returns the object as a message that a client may send.
func (o *Object) Message() message.Message {
	Enum(o, "role", message.RoleSystem, message.RoleUser, message.RoleTool)
	o.ID("id")
	o.ID("parent_message_id")
	if o.Fault() != nil {
		return nil
	}
	members := map[string]json.RawMessage{}
	for _, name := range Sent {
		if value, ok := o.members[name]; ok {
			members[name] = value
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		o.Wrong("", err.Error())
		return nil
	}
	m, err := message.Unmarshal(text)
	if err != nil {
		if e, ok := errors.AsType[*message.FieldError](err); ok {
			o.Wrong(e.Field, e.Reason)
		} else {
			o.Wrong("role", "must be system, user or tool")
		}
	}
	return m
}
