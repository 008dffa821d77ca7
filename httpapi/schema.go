package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/body"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/state"
)

// Bodies are read member by member, for errors that name the place. These types say what is
// read, for the document; a test holds both together.
type (
	sessionBody struct {
		ID uuid.UUID `json:"id,omitzero" jsonschema:"of the new session; made up if left out"`
	}
	startBody struct {
		SessionID          uuid.UUID                `json:"session_id,omitzero" jsonschema:"where to run; made if it does not exist, a new one if left out"`
		RunID              uuid.UUID                `json:"run_id,omitzero" jsonschema:"of the new run; made up if left out"`
		CheckpointID       uuid.UUID                `json:"checkpoint_id,omitzero" jsonschema:"of the session, to start from instead of its latest state"`
		Messages           []sentMessage            `json:"messages,omitempty" jsonschema:"at least one, unless there is a resume_payload or a checkpoint_id"`
		ResumePayload      json.RawMessage          `json:"resume_payload,omitempty" jsonschema:"answers what an interrupted run asks: an object by the ids of the questions or, if there is one question, any JSON; null is no answer"`
		OnBusy             graph.OnBusy             `json:"on_busy,omitempty" jsonschema:"what to do if the session has an active run; if left out, what the agent does"`
		Context            json.RawMessage          `json:"context,omitempty" jsonschema:"its members replace those of the context"`
		Model              react.ModelConfig        `json:"model,omitzero" jsonschema:"replaces that of the session; null clears it"`
		CapabilityOverride react.CapabilityOverride `json:"capability_override,omitzero" jsonschema:"replaces that of the session; null clears it"`
		ContextVars        []react.ContextVar       `json:"context_vars,omitempty" jsonschema:"replace those of the session; an empty list clears them, null does not"`
		Tools              []message.ToolSpec       `json:"tools,omitempty" jsonschema:"that the client runs; they replace those of the session, an empty list clears them, null does not"`
	}
	// sentMessage is a message as clients send it.
	sentMessage interface{ message.Message }
	// nestedMedia is the older form of a block, which is never printed (contract R6).
	nestedMedia struct {
		Type  message.MediaKind `json:"type"`
		Value nestedValue       `json:"value"`
	}
	nestedValue struct {
		Source    message.Source `json:"source"`
		MediaType string         `json:"media_type"`
	}
	// interruptPayload is in a run_finished event (contract R16).
	interruptPayload struct {
		Interrupts []graph.Question `json:"interrupts"`
	}
)

// schema is a JSON schema.
type schema = jsonschema.Schema

// schemas are the components of the document, by name. Of what is printed, the print of a value
// says the names of the members and which of them may be null, and its Go type says what they
// are; of what is read, its Go type says all.
type schemas map[string]*schema

func newSchemas() schemas {
	c := schemas{}
	c.addMessages()
	c.addEvents()

	c["Session"] = c.printed(session{})
	c["SessionPage"] = c.printed(listing[session]{})
	c["CreateSession"] = c.read(reflect.TypeFor[sessionBody]())
	c["Run"] = c.printed(run{})
	c["RunPage"] = c.printed(listing[run]{})
	c["StartRun"] = c.read(reflect.TypeFor[startBody]())
	c["StartedRun"] = c.printed(startedRun{})
	c["Checkpoint"] = c.printed(checkpoint.Checkpoint{})
	c["CheckpointPage"] = c.printed(listing[checkpoint.Checkpoint]{})
	c["CheckpointState"] = c.printed(checkpointState{held: held{Context: json.RawMessage(`{}`)}}, reflect.TypeFor[checkpoint.Checkpoint](), reflect.TypeFor[held]())

	c["ModelConfig"] = c.read(reflect.TypeFor[react.ModelConfig]())
	c["ModelOverride"] = c.read(reflect.TypeFor[react.ModelOverride]())
	c["InferenceParams"] = c.read(reflect.TypeFor[message.Params]())
	c["RetryPolicy"] = c.read(reflect.TypeFor[react.RetryPolicy]())
	c["ContextVar"] = c.read(reflect.TypeFor[react.ContextVar]())
	c["ToolSpec"] = c.read(reflect.TypeFor[message.ToolSpec]())
	c["CapabilityOverride"] = &schema{OneOf: []*schema{
		with(c.printed(react.CapabilityOverride{Strategy: react.OverrideInherit}), "strategy", values(react.OverrideInherit)),
		with(c.printed(react.CapabilityOverride{Strategy: react.OverrideExtend}), "strategy", values(react.OverrideExtend, react.OverrideReplace)),
	}}

	c["About"] = c.printed(about{})
	c["Health"] = with(c.printed(health{}), "status", values("ok"))
	c["OpenAPI"] = &schema{Type: "object"}
	c["Error"] = &schema{AnyOf: []*schema{
		c.printed(&Error{}, reflect.TypeFor[errorBody]()),
		c.printed(&Error{Fields: []react.FieldError{{}}}, reflect.TypeFor[errorBody]()),
	}}
	c["FieldErrors"] = c.printed(fieldBody{})
	c["FieldError"] = with(c.printed(fieldFault{}), "code", values("range", "length", "unique", "pattern", "unknown", "conflict"))
	c["FieldError"].Properties["params"] = members["params"] // left out if there are none
	for place, text := range abouts {
		component, member, inside := strings.Cut(place, ".")
		s := c[component]
		if inside {
			own := *s.Properties[member] // which others may share
			s.Properties[member], s = &own, &own
		}
		s.Description = text
	}
	return c
}

func (c schemas) addMessages() {
	var all, sent []string
	for _, m := range []message.Message{&message.System{}, &message.User{}, &message.Assistant{}, &message.Tool{}, &message.Reasoning{}} {
		t := reflect.TypeOf(m).Elem()
		name := t.Name() + "Message"
		c[name] = c.printed(m, t)
		all = append(all, name)
		switch m.Role() {
		case message.RoleSystem, message.RoleUser, message.RoleTool:
			c["Create"+name] = c.sentAs(c[name])
			sent = append(sent, "Create"+name)
		}
	}
	c["Message"] = c.oneOf("role", all...)
	c["MessagePage"] = c.printed(listing[message.Message]{})
	c["CreateMessage"] = c.oneOf("role", sent...)

	c["ToolCall"] = c.printed(message.ToolCall{})
	c["TextBlock"] = c.printed(message.Text{})
	c["MediaBlock"] = with(c.printed(message.Media{Kind: message.Image, Source: message.Source{Type: message.SourceURL}}),
		"type", c.of(reflect.TypeFor[message.MediaKind]()))
	c["MediaSource"] = c.read(reflect.TypeFor[message.Source]())
	c["ContentBlock"] = c.oneOf("type", "TextBlock", "MediaBlock")
	c["NestedMediaBlock"] = c.read(reflect.TypeFor[nestedMedia]())
	c["NestedMedia"] = c.read(reflect.TypeFor[nestedValue]())
	content := c["CreateUserMessage"].Properties["content"]
	c["CreateUserMessage"].Properties["content"] = &schema{AnyOf: []*schema{
		{Type: "string", Description: "the same as one block of text"},
		{Type: "array", Items: &schema{AnyOf: []*schema{content.Items, ref("NestedMediaBlock")}}},
	}}
}

// sentAs returns the schema of a message that a client sends, from that of the message as it is
// printed: what is printed as null may be left out, and the id may, too.
func (c schemas) sentAs(printed *schema) *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}}
	for _, name := range printed.PropertyOrder {
		if !slices.Contains(body.Sent, name) {
			continue
		}
		p := printed.Properties[name].CloneSchemas()
		s.PropertyOrder = append(s.PropertyOrder, name)
		s.Properties[name] = p
		if name == "id" {
			s.Properties[name] = nullable(p)
		} else if !isNullable(p) {
			s.Required = append(s.Required, name)
		}
	}
	return s
}

func (c schemas) addEvents() {
	var all []string
	for _, kind := range event.Kinds() {
		e, err := event.Unmarshal(fmt.Appendf(nil, `{"kind":%q,"timestamp":0}`, kind))
		if err != nil {
			panic(err)
		}
		t := reflect.TypeOf(e.Data)
		s := c.printed(e, t)
		switch e.Data.(type) {
		case event.RunFinished:
			s = with(s, "status", values(checkpoint.Completed, checkpoint.Interrupted, checkpoint.Cancelled))
			s = with(s, "interrupt_payload", nullable(ref("InterruptPayload")))
		case event.ReasoningSignature:
			s = with(s, "subtype", values("message", "tool_call"))
		case event.StateSnapshot:
			s = with(s, "state", members["state"]) // which every run has
		}
		c[t.Name()+"Event"] = s
		all = append(all, t.Name()+"Event")
	}
	c["Event"] = c.oneOf("kind", all...)

	c["InterruptPayload"] = c.printed(interruptPayload{})
	c["Question"] = c.printed(graph.Question{Payload: json.RawMessage(`{}`)})
	c["PatchOperation"] = &schema{OneOf: []*schema{
		with(c.printed(state.Add("", nil)), "op", values("add", "replace", "test")),
		with(c.printed(state.Move("", "")), "op", values("move", "copy")),
		with(c.printed(state.Remove("")), "op", values("remove")),
	}}
}

// printed returns the schema of an object that prints as v does, which has nothing in it. The
// fields are those of the types; of v's, if none are given.
func (c schemas) printed(v any, types ...reflect.Type) *schema {
	if types == nil {
		types = []reflect.Type{reflect.TypeOf(v)}
	}
	fields := map[string]reflect.StructField{}
	for _, t := range types {
		for _, f := range reflect.VisibleFields(t) {
			name, _ := jsonName(f)
			fields[name] = f
		}
	}
	text, err := wire.Marshal(v)
	if err != nil {
		panic(err)
	}
	s := &schema{Type: "object", Properties: map[string]*schema{}}
	d := json.NewDecoder(bytes.NewReader(text))
	for _, _ = d.Token(); d.More(); { // in the order in which they are printed
		token, _ := d.Token()
		name := token.(string)
		var value any
		_ = d.Decode(&value)
		p := c.member(name, fields[name])
		if p == nil {
			p = values(value.(string)) // that tells the object from its like
		}
		if value == nil && p.Type != "array" {
			p = nullable(p)
		}
		s.Required, s.PropertyOrder = append(s.Required, name), append(s.PropertyOrder, name)
		s.Properties[name] = p
	}
	return s
}

// read returns the schema of an object that is read into a struct. What may be left out may be
// null.
func (c schemas) read(t reflect.Type) *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}}
	for _, f := range reflect.VisibleFields(t) {
		name, optional := jsonName(f)
		p := c.member(name, f)
		if optional {
			p = nullable(p)
		} else {
			s.Required = append(s.Required, name)
		}
		s.PropertyOrder = append(s.PropertyOrder, name)
		s.Properties[name] = p
	}
	return s
}

// jsonName returns the name of a field in JSON, and whether it may be left out. Types that have
// no tags print the name in snake case.
func jsonName(f reflect.StructField) (name string, optional bool) {
	if tag, options, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
		return tag, options != ""
	}
	runes := []rune(f.Name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower(runes[i-1]) {
			name += "_"
		}
		name += string(unicode.ToLower(r))
	}
	return name, false
}

// member returns the schema of a member that stands in a field, nil if nothing says what it is.
func (c schemas) member(name string, f reflect.StructField) *schema {
	var p schema
	switch known := members[name]; {
	case known != nil:
		p = *known
	case f.Type != nil:
		p = *c.of(f.Type)
	default:
		return nil
	}
	if text := f.Tag.Get("jsonschema"); text != "" {
		p.Description = text
	}
	return &p
}

// of returns the schema of the values of a type.
func (c schemas) of(t reflect.Type) *schema {
	if s := formats[t]; s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return c.of(t.Elem())
	case reflect.Struct, reflect.Interface:
		name := t.Name()
		return ref(cmp.Or(names[t], strings.ToUpper(name[:1])+name[1:]))
	case reflect.Slice:
		return &schema{Type: "array", Items: c.of(t.Elem())}
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Float64:
		return &schema{Type: "number"}
	case reflect.Int, reflect.Int64:
		return &schema{Type: "integer"}
	case reflect.Uint32, reflect.Uint64:
		return &schema{Type: "integer", Minimum: new(float64)}
	}
	panic(fmt.Sprintf("httpapi: no schema for %v", t))
}

// names are those of components that are not called like their type.
var names = map[reflect.Type]string{
	reflect.TypeFor[sentMessage]():     "CreateMessage",
	reflect.TypeFor[message.Block]():   "ContentBlock",
	reflect.TypeFor[message.Source]():  "MediaSource",
	reflect.TypeFor[message.Params]():  "InferenceParams",
	reflect.TypeFor[nestedValue]():     "NestedMedia",
	reflect.TypeFor[state.Operation](): "PatchOperation",
	reflect.TypeFor[fieldBody]():       "FieldErrors",
	reflect.TypeFor[fieldFault]():      "FieldError",
}

var aUUID = &schema{Type: "string", Format: "uuid"}

// formats are the schemas of types whose kind says too little.
var formats = map[reflect.Type]*schema{
	reflect.TypeFor[uuid.UUID]():          aUUID,
	reflect.TypeFor[time.Time]():          {Type: "string", Format: "date-time"},
	reflect.TypeFor[json.RawMessage]():    {Description: "any JSON"},
	reflect.TypeFor[checkpoint.Status]():  values(checkpoint.Running, checkpoint.Interrupted, checkpoint.Completed, checkpoint.Failed, checkpoint.Cancelled),
	reflect.TypeFor[checkpoint.Reason]():  values(checkpoint.Input, checkpoint.Step, checkpoint.Interrupt, checkpoint.Finish),
	reflect.TypeFor[graph.OnBusy]():       values(graph.Reject, graph.Wait, graph.Cancel),
	reflect.TypeFor[message.MediaKind]():  values(message.Image, message.Audio, message.Video, message.Document),
	reflect.TypeFor[message.SourceType](): values(message.SourceURL, message.SourceBase64),
}

// members are the schemas of members whose field says too little, or has another name. A name
// means the same everywhere.
var members = map[string]*schema{
	"timestamp":            {Type: "number", Description: "seconds since the Unix epoch"},
	"session_id":           aUUID,
	"run_id":               aUUID,
	"parent_checkpoint_id": aUUID,
	"context":              {Type: "object"},
	"metadata":             {Type: "object"},
	"parameters":           {Type: "object", Description: "JSON schema of the arguments"},
	"params":               {Type: "object"},
	"provider_params":      {Type: "object", Description: "what the provider understands"},
	"result":               {Type: "object", Description: "the context at the end"},
	"state":                {Type: "object", Description: "the context"},
}

func ref(name string) *schema { return &schema{Ref: "#/components/schemas/" + name} }

// values returns the schema of a string that has one of the values.
func values[T ~string](values ...T) *schema {
	s := &schema{Type: "string"}
	if len(values) == 1 {
		s.Const = new(any(string(values[0])))
		return s
	}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

var null = &schema{Type: "null"}

// nullable returns the schema of what s describes, or null.
func nullable(s *schema) *schema {
	n := *s
	switch {
	case s.Ref != "" || s.AnyOf != nil:
		n.Description = ""
		return &schema{Description: s.Description, AnyOf: []*schema{&n, null}}
	case s.Type != "":
		n.Type, n.Types = "", []string{s.Type, "null"}
	}
	if n.Enum != nil {
		n.Enum = append(slices.Clip(n.Enum), nil)
	}
	return &n
}

func isNullable(s *schema) bool {
	return slices.Contains(s.Types, "null") || slices.Contains(s.AnyOf, null)
}

// with returns s with another schema for a member.
func with(s *schema, member string, p *schema) *schema {
	s.Properties[member] = p
	return s
}

// oneOf returns the schema of what is any of the components, which the values of a member tell
// apart.
func (c schemas) oneOf(member string, components ...string) *schema {
	s := &schema{}
	mapping := map[string]string{}
	for _, name := range components {
		r := ref(name)
		s.OneOf = append(s.OneOf, r)
		p := c[name].Properties[member]
		if p.Const != nil {
			mapping[(*p.Const).(string)] = r.Ref
		}
		for _, v := range p.Enum {
			mapping[v.(string)] = r.Ref
		}
	}
	s.Extra = map[string]any{"discriminator": map[string]any{"propertyName": member, "mapping": mapping}}
	return s
}

// abouts describe components and their members where no tag of a field does.
var abouts = map[string]string{
	"Session":                         "a conversation with its history",
	"Run":                             "one execution in a session, from an input to its end",
	"Checkpoint":                      "a position of a run, from where a run can start",
	"Checkpoint.node":                 "that ran last; for input, that runs first",
	"Checkpoint.status":               "of the run at that moment",
	"Checkpoint.reason":               "why it was written: the input, a step, an interrupt, or the end of the run",
	"Checkpoint.parent_checkpoint_id": "the one before; null for the first of a session",
	"Checkpoint.metadata":             "of an interrupt: what it asks, in interrupt_payload",
	"CheckpointState":                 "a checkpoint with what it holds",
	"CheckpointState.messages":        "the conversation up to there",
	"StartedRun":                      "where the run is to be found",
	"About":                           "the agent and the program",
	"OpenAPI":                         "an OpenAPI 3.1 document",
	"Error":                           "What went wrong. The HTTP status is the code divided by 1000, without the rest. Either a message says what is wrong, or fields do.",
	"FieldErrors":                     "what is wrong with one field of the request",
	"FieldErrors.field":               "path of the field, such as messages[0].id",
	"FieldError.params":               "the bounds that were passed; left out if there are none",

	"Message":                       "one message of a conversation",
	"SystemMessage":                 "instructs the model",
	"UserMessage":                   "what the user says, in blocks",
	"AssistantMessage":              "the visible part of a reply of the model",
	"AssistantMessage.content":      "null if no text arrived",
	"ToolMessage":                   "the result of one tool call",
	"ToolMessage.parent_message_id": "the assistant message that made the call",
	"ToolMessage.content":           "null if there was no output",
	"ToolMessage.error":             "null if the call succeeded",
	"ReasoningMessage":              "a block of the model's reasoning, before the reply that it led to",
	"ReasoningMessage.signature":    "what the provider wants back with the block",
	"CreateMessage":                 "a message that a client sends",
	"ToolCall":                      "the wish of the model to have a tool called",
	"ToolCall.arguments":            "any JSON, normally an object",
	"ContentBlock":                  "a piece of a user message",
	"MediaBlock.media_type":         "MIME type, such as image/png",
	"MediaSource.value":             "an absolute URL, or the bytes in base64",
	"NestedMediaBlock":              "an older form of MediaBlock, which is read too",

	"ModelConfig":                 "what a client chooses about the model; what is left out or null is the agent's default",
	"ModelConfig.timeout":         "milliseconds within which the reply has to begin, at least 1",
	"ModelOverride":               "another model, or other parameters",
	"RetryPolicy":                 "how often a reply that could not begin is asked for again",
	"RetryPolicy.max_attempts":    "with the first one, at least 1",
	"RetryPolicy.initial_backoff": "milliseconds before the second attempt, at least 0",
	"RetryPolicy.max_backoff":     "milliseconds, at least 0",
	"CapabilityOverride":          "Changes the capabilities of the agent for the session: inherit leaves them, extend adds to them, replace replaces them. An agent whose capabilities are locked refuses all but inherit.",
	"ContextVar":                  "something that the prompt may tell the model",
	"ToolSpec":                    "a tool that the client runs: a run that calls it ends, and the next one brings the result as a tool message",

	"Event":                                "one thing that happened in a run",
	"RunStartedEvent":                      "first event of every run",
	"RunFinishedEvent":                     "last event of a run that did not fail",
	"RunErrorEvent":                        "last event of a run that failed",
	"RunErrorEvent.error":                  "for a person",
	"RunErrorEvent.code":                   "for a program",
	"TextMessageStartEvent":                "begins an assistant message",
	"TextMessageContentEvent":              "a piece of an assistant message",
	"TextMessageEndEvent":                  "ends an assistant message",
	"ReasoningStartEvent":                  "begins a span of reasoning",
	"ReasoningEndEvent":                    "ends a span of reasoning",
	"ReasoningMessageStartEvent":           "begins the text of a span of reasoning",
	"ReasoningMessageContentEvent":         "a piece of the text of a span of reasoning",
	"ReasoningMessageEndEvent":             "ends the text of a span of reasoning",
	"ReasoningSignatureEvent":              "what a provider wants back with the reasoning, or with a tool call",
	"ReasoningSignatureEvent.entity_id":    "what is signed: the id of the message or of the tool call",
	"ToolCallStartEvent":                   "announces a tool call",
	"ToolCallStartEvent.parent_message_id": "the assistant message that makes the call",
	"ToolCallArgsEvent":                    "a piece of the arguments of an announced call",
	"ToolCallArgsEvent.delta":              "of JSON text",
	"ToolCallEndEvent":                     "the arguments of a call are complete",
	"ToolCallResultEvent":                  "settles a call; the result is stored",
	"ToolCallResultEvent.message_id":       "of the tool message",
	"ToolCallErrorEvent":                   "settles a call that has no result",
	"ToolCallErrorEvent.message_id":        "of the tool message",
	"ToolCallErrorEvent.error":             "for a person",
	"ToolCallErrorEvent.code":              "for a program",
	"ActivityDeltaEvent":                   "what a tool says while it runs",
	"ActivityDeltaEvent.patch":             "of a document of its own",
	"StateSnapshotEvent":                   "the whole context",
	"StateDeltaEvent":                      "changes the context that the client has",
	"MessagesSnapshotEvent":                "the whole conversation",
	"InterruptPayload":                     "what an interrupted run asks",
	"Question.id":                          "what an answer names",
	"Question.name":                        "who asks: a tool or a node",
	"Question.payload":                     "what is asked, any JSON",
	"PatchOperation":                       "an operation of JSON Patch, RFC 6902",
}
