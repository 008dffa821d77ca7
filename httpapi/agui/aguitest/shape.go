package aguitest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// check says what is wrong with the value of a member.
type check func(v any) error

// shape is what an event must and may have.
type shape struct {
	required, optional map[string]check
}

func text(v any) error {
	if _, ok := v.(string); !ok {
		return fmt.Errorf("is %T, not a text", v)
	}
	return nil
}

func object(v any) error {
	if _, ok := v.(map[string]any); !ok {
		return fmt.Errorf("is %T, not an object", v)
	}
	return nil
}

func list(v any) error {
	if _, ok := v.([]any); !ok {
		return fmt.Errorf("is %T, not an array", v)
	}
	return nil
}

func boolean(v any) error {
	if _, ok := v.(bool); !ok {
		return fmt.Errorf("is %T, not true or false", v)
	}
	return nil
}

func anything(any) error { return nil }

// maxSafe is the greatest integer of JavaScript.
const maxSafe = 1<<53 - 1

func integer(v any) error {
	n, ok := v.(json.Number)
	i, err := strconv.ParseInt(string(n), 10, 64)
	if !ok || err != nil || i > maxSafe || i < -maxSafe {
		return fmt.Errorf("is %v, not a safe integer", v)
	}
	return nil
}

func count(v any) error {
	if err := integer(v); err != nil {
		return err
	}
	if v.(json.Number)[0] == '-' {
		return fmt.Errorf("is %v, negative", v)
	}
	return nil
}

func oneOf(values ...string) check {
	return func(v any) error {
		if s, ok := v.(string); !ok || !slices.Contains(values, s) {
			return fmt.Errorf("is %v, none of %q", v, values)
		}
		return nil
	}
}

func listOf(item check) check {
	return func(v any) error {
		if err := list(v); err != nil {
			return err
		}
		for i, x := range v.([]any) {
			if err := item(x); err != nil {
				return fmt.Errorf("[%d] %w", i, err)
			}
		}
		return nil
	}
}

func members(required, optional map[string]check) check {
	return func(v any) error {
		if err := object(v); err != nil {
			return err
		}
		return (shape{required, optional}).check(v.(map[string]any))
	}
}

func (s shape) check(o map[string]any) error {
	for name, check := range s.required {
		v, ok := o[name]
		if !ok {
			return fmt.Errorf("%s is missing", name)
		}
		if err := check(v); err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
	}
	for name, check := range s.optional {
		if v, ok := o[name]; ok {
			if err := check(v); err != nil {
				return fmt.Errorf("%s %w", name, err)
			}
		}
	}
	return nil
}

type fields = map[string]check

// patch is a JSON Patch.
var patch = listOf(members(fields{"op": oneOf("add", "remove", "replace", "move", "copy", "test"), "path": text}, fields{"from": text}))

// shapes returns the shapes of the events of a dialect, by type.
func shapes(d Dialect) map[string]shape {
	content := content(d)
	message := messageCheck(d)
	usage := listOf(members(nil, fields{
		"provider": text, "model": text, "inputTokens": count, "outputTokens": count, "totalTokens": count,
		"reasoningTokens": count, "cachedInputTokens": count, "cacheWriteInputTokens": count,
	}))
	id := fields{"messageId": text}
	delta := fields{"messageId": text, "delta": text}
	return map[string]shape{
		"RUN_STARTED": {
			fields{"threadId": text, "runId": text},
			fields{"protocolVersion": text, "parentRunId": text, "input": members(inputMembers(d, message), nil)},
		},
		"RUN_FINISHED":              {fields{"threadId": text, "runId": text}, fields{"outcome": outcome(d), "usage": usage}},
		"RUN_ERROR":                 {fields{"message": text}, fields{"code": text, "usage": usage}},
		"STEP_STARTED":              {fields{"stepName": text}, nil},
		"STEP_FINISHED":             {fields{"stepName": text}, nil},
		"TEXT_MESSAGE_START":        {id, fields{"role": oneOf("developer", "system", "assistant", "user"), "name": text}},
		"TEXT_MESSAGE_CONTENT":      {delta, nil},
		"TEXT_MESSAGE_END":          {id, nil},
		"TEXT_MESSAGE_CHUNK":        {nil, fields{"messageId": text, "role": oneOf("developer", "system", "assistant", "user"), "delta": text, "name": text}},
		"TOOL_CALL_START":           {fields{"toolCallId": text, "toolCallName": text}, fields{"parentMessageId": text}},
		"TOOL_CALL_ARGS":            {fields{"toolCallId": text, "delta": text}, nil},
		"TOOL_CALL_END":             {fields{"toolCallId": text}, nil},
		"TOOL_CALL_CHUNK":           {nil, fields{"toolCallId": text, "toolCallName": text, "parentMessageId": text, "delta": text}},
		"TOOL_CALL_RESULT":          {fields{"messageId": text, "toolCallId": text, "content": content}, fields{"role": oneOf("tool")}},
		"STATE_SNAPSHOT":            {fields{"snapshot": anything}, nil},
		"STATE_DELTA":               {fields{"delta": patch}, nil},
		"MESSAGES_SNAPSHOT":         {fields{"messages": listOf(message)}, nil},
		"ACTIVITY_SNAPSHOT":         {fields{"messageId": text, "activityType": text, "content": object}, fields{"replace": boolean}},
		"ACTIVITY_DELTA":            {fields{"messageId": text, "activityType": text, "patch": patch}, nil},
		"RAW":                       {fields{"event": anything}, fields{"source": text}},
		"CUSTOM":                    {fields{"name": text, "value": anything}, nil},
		"REASONING_START":           {id, nil},
		"REASONING_END":             {id, nil},
		"REASONING_MESSAGE_START":   {fields{"messageId": text, "role": oneOf("reasoning")}, nil},
		"REASONING_MESSAGE_CONTENT": {delta, nil},
		"REASONING_MESSAGE_END":     {id, nil},
		"REASONING_MESSAGE_CHUNK":   {nil, fields{"messageId": text, "delta": text}},
		"REASONING_ENCRYPTED_VALUE": {fields{"subtype": oneOf("tool-call", "message"), "entityId": text, "encryptedValue": text}, nil},
		"SUBAGENT_STARTED": {
			fields{"subagentRunId": text, "name": text},
			fields{"description": text, "parentSubagentRunId": text, "parentToolCallId": text, "parentMessageId": text},
		},
		"SUBAGENT_FINISHED": {fields{"subagentRunId": text}, fields{"outcome": members(fields{"type": oneOf("success", "suspended")}, nil)}},
		"SUBAGENT_ERROR":    {fields{"subagentRunId": text, "message": text}, fields{"code": text}},
	}
}

// common are the members that all events may have.
var common = shape{nil, fields{"timestamp": integer, "metadata": object, "subagentRunId": text}}

func inputMembers(d Dialect, message check) fields {
	f := fields{"threadId": text, "runId": text, "messages": listOf(message)}
	if d == V0 {
		f["tools"], f["context"] = list, list
	}
	return f
}

func outcome(d Dialect) check {
	interrupts := listOf(members(fields{"id": text, "reason": text}, fields{
		"message": text, "toolCallId": text, "responseSchema": object, "expiresAt": text, "metadata": object, "subagentRunId": text,
	}))
	return func(v any) error {
		if err := object(v); err != nil {
			return err
		}
		o := v.(map[string]any)
		switch o["type"] {
		case "success":
			if _, ok := o["pendingToolCallIds"]; ok && d == V0 {
				return fmt.Errorf("of success has pendingToolCallIds, which 0.0.59 refuses")
			}
			return (shape{nil, fields{"pendingToolCallIds": listOf(text)}}).check(o)
		case "interrupt":
			if err := (shape{fields{"interrupts": interrupts}, nil}).check(o); err != nil {
				return err
			}
			if len(o["interrupts"].([]any)) == 0 {
				return fmt.Errorf("of interrupt has no interrupts")
			}
			seen := map[any]bool{}
			for _, i := range o["interrupts"].([]any) {
				id := i.(map[string]any)["id"]
				if seen[id] {
					return fmt.Errorf("has the interrupt %q twice", id)
				}
				seen[id] = true
			}
			return nil
		case "cancelled":
			if d == V0 {
				return fmt.Errorf("is cancelled, which 0.0.59 refuses")
			}
			return nil
		}
		return fmt.Errorf("has the type %v", o["type"])
	}
}

// content is a text or parts.
func content(d Dialect) check {
	return func(v any) error {
		if _, ok := v.(string); ok {
			return nil
		}
		if d == V0 {
			return fmt.Errorf("is %T, not a text, which 0.0.59 refuses", v)
		}
		return listOf(part(d))(v)
	}
}

func part(d Dialect) check {
	source := func(v any) error {
		if err := object(v); err != nil {
			return err
		}
		o := v.(map[string]any)
		types := []string{"data", "url"}
		if d == V1 {
			types = append(types, "file")
		}
		s := shape{fields{"type": oneOf(types...), "value": text}, fields{"mimeType": text, "provider": text}}
		if o["type"] == "data" {
			s.required["mimeType"] = text
		}
		return s.check(o)
	}
	return func(v any) error {
		if err := object(v); err != nil {
			return err
		}
		o := v.(map[string]any)
		switch o["type"] {
		case "text":
			return (shape{fields{"text": text}, fields{"id": text, "metadata": object}}).check(o)
		case "image", "audio", "video", "document":
			return (shape{fields{"source": source}, fields{"id": text, "metadata": object}}).check(o)
		}
		return fmt.Errorf("has the type %v", o["type"])
	}
}

func messageCheck(d Dialect) check {
	call := members(fields{
		"id": text, "type": oneOf("function"), "function": members(fields{"name": text, "arguments": text}, nil),
	}, fields{"encryptedValue": text, "metadata": object})
	parts := func(v any) error {
		if _, ok := v.(string); ok {
			return nil
		}
		return listOf(part(d))(v)
	}
	roles := map[string]shape{
		"developer": {fields{"content": text}, nil},
		"system":    {fields{"content": text}, nil},
		"user":      {fields{"content": parts}, nil},
		"assistant": {nil, fields{"content": text, "toolCalls": listOf(call)}},
		"tool":      {fields{"content": content(d), "toolCallId": text}, fields{"error": text}},
		"reasoning": {fields{"content": text}, fields{"encryptedValue": text}},
		"activity":  {fields{"activityType": text, "content": object}, nil},
	}
	return func(v any) error {
		if err := object(v); err != nil {
			return err
		}
		o := v.(map[string]any)
		role, _ := o["role"].(string)
		s, ok := roles[role]
		if !ok {
			return fmt.Errorf("has the role %v", o["role"])
		}
		if err := (shape{fields{"id": text}, fields{"metadata": object, "name": text, "subagentRunId": text}}).check(o); err != nil {
			return err
		}
		return s.check(o)
	}
}
