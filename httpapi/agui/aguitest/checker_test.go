package aguitest_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi/agui/aguitest"
)

func Example() {
	body := strings.NewReader(`data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}

data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hello"}

`) // of a response
	for e, err := range aguitest.Events(body, aguitest.V1) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Type())
	}
	// Output:
	// RUN_STARTED
	// aguitest: event 2, TEXT_MESSAGE_CONTENT: text m is not open
}

const (
	started  = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
	finished = `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
	failed   = `{"type":"RUN_ERROR","message":"x"}`
)

// frames are events as they are sent.
func frames(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

// of is an event with an id.
func of(kind string, more ...string) string {
	o := `{"type":"` + kind + `"`
	switch {
	case strings.HasPrefix(kind, "STEP"):
		o += `,"stepName":"s"`
	case strings.HasPrefix(kind, "TOOL_CALL"):
		o += `,"toolCallId":"c"`
	default:
		o += `,"messageId":"m"`
	}
	switch kind {
	case "TOOL_CALL_START":
		o += `,"toolCallName":"n"`
	case "REASONING_MESSAGE_START":
		o += `,"role":"reasoning"`
	case "TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "REASONING_MESSAGE_CONTENT":
		o += `,"delta":""`
	}
	for _, m := range more {
		o += "," + m
	}
	return o + "}"
}

func TestWhatClientsAcceptIsRight(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		d    aguitest.Dialect
		body string
	}{
		"nothing but the ends":     {aguitest.V0, frames(started, finished)},
		"an error at once":         {aguitest.V0, frames(failed)},
		"an error after the end":   {aguitest.V0, frames(started, finished, failed)},
		"two runs":                 {aguitest.V0, frames(started, finished, started, failed, started, finished)},
		"comments and ids":         {aguitest.V0, ": hello\n\nevent: x\nid: 1\n" + frames(started) + ": keep-alive\n\n" + frames(finished)},
		"all that opens is closed": {aguitest.V0, frames(started, of("STEP_STARTED"), of("TEXT_MESSAGE_START"), of("TEXT_MESSAGE_CONTENT"), of("TOOL_CALL_START"), of("TEXT_MESSAGE_END"), of("TOOL_CALL_ARGS"), of("TOOL_CALL_END"), of("STEP_FINISHED"), of("REASONING_START"), of("REASONING_MESSAGE_START"), of("REASONING_MESSAGE_CONTENT"), of("REASONING_MESSAGE_END"), of("REASONING_END"), finished)},
		"an error with all open":   {aguitest.V0, frames(started, of("STEP_STARTED"), of("TEXT_MESSAGE_START"), of("TOOL_CALL_START"), failed)},
		"an unknown member":        {aguitest.V0, frames(`{"type":"RUN_STARTED","threadId":"t","runId":"r","zzz":null}`, finished)},
		"a snapshot of null":       {aguitest.V0, frames(started, `{"type":"STATE_SNAPSHOT","snapshot":null}`, finished)},
		"cancelled":                {aguitest.V1, frames(started, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}`)},
		"pending calls":            {aguitest.V1, frames(started, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","pendingToolCallIds":["a"]}}`)},
		"an interrupt":             {aguitest.V0, frames(started, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"a","reason":"b"}]}}`)},
		"a result of parts":        {aguitest.V1, frames(started, `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"type":"text","text":"x"}]}`, finished)},
		"activity":                 {aguitest.V0, frames(started, `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"x","content":{}}`, `{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"x","patch":[{"op":"remove","path":"/a"}]}`, finished)},
		"subagents":                {aguitest.V0, frames(started, `{"type":"SUBAGENT_STARTED","subagentRunId":"a","name":"n"}`, of("TEXT_MESSAGE_START", `"subagentRunId":"a"`), of("TEXT_MESSAGE_END", `"subagentRunId":"a"`), `{"type":"SUBAGENT_FINISHED","subagentRunId":"a"}`, finished)},
		"chunks":                   {aguitest.V0, frames(started, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}`, `{"type":"TEXT_MESSAGE_CHUNK","delta":"a"}`, `{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"n"}`, finished)},
		"messages":                 {aguitest.V0, frames(started, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"user","content":[{"type":"image","source":{"type":"data","value":"","mimeType":"image/png"}}]},{"id":"2","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"n","arguments":"{}"}}]},{"id":"3","role":"tool","toolCallId":"c","content":""},{"id":"4","role":"reasoning","content":""}]}`, finished)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(c.body), iotest.OneByteReader(strings.NewReader(c.body))} {
				events, err := aguitest.Read(r, c.d)
				require.NoError(t, err)
				assert.NotEmpty(t, aguitest.Types(events))
			}
		})
	}
}

func TestWhatClientsBreakOffWithIsWrong(t *testing.T) {
	t.Parallel()
	end := func(more string) string {
		return frames(started, `{"type":"RUN_FINISHED","threadId":"t","runId":"r",`+more+`}`)
	}
	within := func(events ...string) string { return frames(started) + frames(events...) + frames(finished) }
	for name, c := range map[string]struct {
		d    aguitest.Dialect
		body string
		want string
	}{
		// Frames.
		"CRLF":                {aguitest.V1, strings.ReplaceAll(frames(started, finished), "\n", "\r\n"), "within an event"},
		"a CR":                {aguitest.V1, "data: " + started + "\r\n\n", "CR"},
		"no data":             {aguitest.V1, frames(started) + "data: \n\n", "without data"},
		"[DONE]":              {aguitest.V1, frames(started, finished, "[DONE]"), "no object"},
		"two lines of data":   {aguitest.V1, "data: {\ndata: }\n\n", "two data lines"},
		"two objects":         {aguitest.V1, frames(started + "{}"), "more than one object"},
		"null":                {aguitest.V1, frames("null"), "no object"},
		"an array":            {aguitest.V1, frames("[]"), "no object"},
		"a line of something": {aguitest.V1, "foo: bar\n\n", "none of server-sent events"},
		"no end of the event": {aguitest.V1, "data: " + started, "within an event"},
		"no end of the run":   {aguitest.V1, frames(started), "ends without"},
		"nothing":             {aguitest.V1, "", "ends without"},
		// Order.
		"no start":                       {aguitest.V1, frames(finished), "the first event"},
		"a second start":                 {aguitest.V1, frames(started, started), "a run is active"},
		"something after the end":        {aguitest.V1, frames(started, finished, of("TEXT_MESSAGE_START")), "has finished"},
		"a second end":                   {aguitest.V1, frames(started, finished, finished), "has finished"},
		"something after an error":       {aguitest.V1, frames(started, failed, of("TEXT_MESSAGE_START")), "has failed"},
		"an end after an error":          {aguitest.V1, frames(started, failed, finished), "has failed"},
		"a text that is open":            {aguitest.V1, within(of("TEXT_MESSAGE_START"), of("TEXT_MESSAGE_START")), "text m is open already"},
		"a call that is open":            {aguitest.V1, within(of("TOOL_CALL_START"), of("TOOL_CALL_START")), "call c is open already"},
		"reasoning that is open":         {aguitest.V1, within(of("REASONING_START"), of("REASONING_START")), "reasoning m is open already"},
		"a step that is open":            {aguitest.V1, within(of("STEP_STARTED"), of("STEP_STARTED")), "step s is open already"},
		"text without a start":           {aguitest.V1, within(of("TEXT_MESSAGE_CONTENT")), "text m is not open"},
		"an end of text without a start": {aguitest.V1, within(of("TEXT_MESSAGE_END")), "text m is not open"},
		"arguments without a start":      {aguitest.V1, within(of("TOOL_CALL_ARGS")), "call c is not open"},
		"reasoning without a start":      {aguitest.V1, within(of("REASONING_MESSAGE_CONTENT")), "reasoning message m is not open"},
		"an end of reasoning":            {aguitest.V1, within(of("REASONING_END")), "reasoning m is not open"},
		"an end of a step":               {aguitest.V1, within(of("STEP_FINISHED")), "step s is not open"},
		"an open text at the end":        {aguitest.V1, within(of("TEXT_MESSAGE_START")), "open: map[text m"},
		"an open call at the end":        {aguitest.V1, within(of("TOOL_CALL_START")), "open: map[call c"},
		"an open step at the end":        {aguitest.V1, within(of("STEP_STARTED")), "open: map[step s"},
		"an open span at the end":        {aguitest.V1, within(of("REASONING_START")), "open: map[reasoning m"},
		"another run ends":               {aguitest.V1, frames(started, `{"type":"RUN_FINISHED","threadId":"t","runId":"x"}`), "not the run that was started"},
		"a delta of no activity":         {aguitest.V1, within(`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"x","patch":[]}`), "no snapshot"},
		"a text with the id of activity": {aguitest.V1, within(`{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"x","content":{}}`, of("TEXT_MESSAGE_START")), "is an activity"},
		"a subagent twice":               {aguitest.V1, within(`{"type":"SUBAGENT_STARTED","subagentRunId":"a","name":"n"}`, `{"type":"SUBAGENT_STARTED","subagentRunId":"a","name":"n"}`), "was started before"},
		"a subagent of nobody":           {aguitest.V1, within(`{"type":"SUBAGENT_STARTED","subagentRunId":"a","name":"n","parentSubagentRunId":"b"}`), "no active subagent"},
		"an end of no subagent":          {aguitest.V1, within(`{"type":"SUBAGENT_FINISHED","subagentRunId":"a"}`), "no active subagent"},
		"an active subagent at the end":  {aguitest.V1, within(`{"type":"SUBAGENT_STARTED","subagentRunId":"a","name":"n"}`), "is active"},
		"text of another subagent":       {aguitest.V1, within(of("TEXT_MESSAGE_START"), of("TEXT_MESSAGE_CONTENT", `"subagentRunId":"a"`)), "belongs to subagent"},
		"a first chunk without id":       {aguitest.V1, within(`{"type":"TEXT_MESSAGE_CHUNK","delta":"a"}`), "has no messageId"},
		"a first chunk without name":     {aguitest.V1, within(`{"type":"TOOL_CALL_CHUNK","toolCallId":"c"}`), "has no toolCallName"},
		// Shapes.
		"an unknown type":         {aguitest.V1, within(`{"type":"THINKING_START"}`), "no such type"},
		"no type":                 {aguitest.V1, within(`{}`), "no such type"},
		"no thread":               {aguitest.V1, frames(`{"type":"RUN_STARTED","runId":"r"}`), "threadId is missing"},
		"a float timestamp":       {aguitest.V1, frames(`{"type":"RUN_STARTED","threadId":"t","runId":"r","timestamp":1.5}`), "safe integer"},
		"a text timestamp":        {aguitest.V1, frames(`{"type":"RUN_STARTED","threadId":"t","runId":"r","timestamp":"1"}`), "safe integer"},
		"a huge timestamp":        {aguitest.V1, frames(`{"type":"RUN_STARTED","threadId":"t","runId":"r","timestamp":9007199254740992}`), "safe integer"},
		"a delta of null":         {aguitest.V1, within(of("TEXT_MESSAGE_START"), `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":null}`), "delta"},
		"metadata of null":        {aguitest.V1, within(of("TEXT_MESSAGE_START", `"metadata":null`)), "metadata"},
		"a subagent of null":      {aguitest.V1, within(of("TEXT_MESSAGE_START", `"subagentRunId":null`)), "subagentRunId"},
		"a parent of null":        {aguitest.V1, within(of("TOOL_CALL_START", `"parentMessageId":null`)), "parentMessageId"},
		"a text of a tool":        {aguitest.V1, within(of("TEXT_MESSAGE_START", `"role":"tool"`)), "role"},
		"reasoning of a user":     {aguitest.V1, within(of("REASONING_START"), `{"type":"REASONING_MESSAGE_START","messageId":"m","role":"user"}`), "role"},
		"no snapshot":             {aguitest.V1, within(`{"type":"STATE_SNAPSHOT"}`), "snapshot is missing"},
		"a delta that is no list": {aguitest.V1, within(`{"type":"STATE_DELTA","delta":{}}`), "delta"},
		"a delta of no operation": {aguitest.V1, within(`{"type":"STATE_DELTA","delta":[{"op":"set","path":"/a"}]}`), "delta"},
		"no value":                {aguitest.V1, within(`{"type":"CUSTOM","name":"n"}`), "value is missing"},
		"messages of null":        {aguitest.V1, within(`{"type":"MESSAGES_SNAPSHOT","messages":null}`), "messages"},
		"a message without id":    {aguitest.V1, within(`{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","content":""}]}`), "id is missing"},
		"a message of nobody":     {aguitest.V1, within(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"god"}]}`), "role"},
		"content of null":         {aguitest.V1, within(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"assistant","content":null}]}`), "content"},
		"calls of null":           {aguitest.V1, within(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"assistant","toolCalls":null}]}`), "toolCalls"},
		"an error of null":        {aguitest.V1, within(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"tool","toolCallId":"c","content":"","error":null}]}`), "error"},
		"arguments of no text":    {aguitest.V1, within(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"n","arguments":{}}}]}]}`), "arguments"},
		"activity of a list":      {aguitest.V1, within(`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"x","content":[]}`), "content"},
		"a subtype of ours":       {aguitest.V1, within(`{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool_call","entityId":"e","encryptedValue":"v"}`), "subtype"},
		"an outcome of null":      {aguitest.V1, end(`"outcome":null`), "outcome"},
		"an unknown outcome":      {aguitest.V1, end(`"outcome":{"type":"maybe"}`), "outcome"},
		"no interrupts":           {aguitest.V1, end(`"outcome":{"type":"interrupt","interrupts":[]}`), "no interrupts"},
		"an interrupt twice":      {aguitest.V1, end(`"outcome":{"type":"interrupt","interrupts":[{"id":"a","reason":"b"},{"id":"a","reason":"b"}]}`), "twice"},
		"an interrupt of null":    {aguitest.V1, end(`"outcome":{"type":"interrupt","interrupts":[{"id":"a","reason":"b","message":null}]}`), "message"},
		"a float of tokens":       {aguitest.V1, end(`"usage":[{"inputTokens":1.5}]`), "inputTokens"},
		"tokens below zero":       {aguitest.V1, end(`"usage":[{"inputTokens":-1}]`), "negative"},
		"cancelled with a result": {aguitest.V1, end(`"outcome":{"type":"cancelled"},"result":{}`), "has a result"},
		// What only 0.0.59 refuses.
		"0.0.59: cancelled":         {aguitest.V0, end(`"outcome":{"type":"cancelled"}`), "0.0.59 refuses"},
		"0.0.59: pending calls":     {aguitest.V0, end(`"outcome":{"type":"success","pendingToolCallIds":[]}`), "0.0.59 refuses"},
		"0.0.59: a result of parts": {aguitest.V0, within(`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[]}`), "0.0.59 refuses"},
		"0.0.59: a file":            {aguitest.V0, within(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"user","content":[{"type":"image","source":{"type":"file","value":"f"}}]}]}`), "type"},
		"0.0.59: input":             {aguitest.V0, frames(`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[]}}`), "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := aguitest.Read(strings.NewReader(c.body), c.d)
			require.ErrorContains(t, err, c.want)
			if strings.HasPrefix(name, "0.0.59: ") && !strings.HasSuffix(name, "input") {
				_, err = aguitest.Read(strings.NewReader(c.body), aguitest.V1)
				assert.NoError(t, err)
			}
		})
	}
}

func TestAnErrorIsTheLastThing(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	n := 0
	var failure error
	for e, err := range aguitest.Events(io.MultiReader(strings.NewReader(frames(started)), iotest.ErrReader(broken)), aguitest.V1) {
		require.NoError(t, failure)
		require.Equal(t, err == nil, e != nil)
		failure = err
		n++
	}
	assert.Equal(t, 2, n)
	assert.ErrorIs(t, failure, broken)
	_, err := aguitest.Read(strings.NewReader(frames(started)), aguitest.V1)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	for range aguitest.Events(strings.NewReader(frames(started, finished)), aguitest.V1) {
		break // a loop can be left
	}
	_, err = aguitest.Read(strings.NewReader("data: "+strings.Repeat("x", 11<<20)), aguitest.V1)
	assert.ErrorContains(t, err, "an event has more than")
}

func FuzzEvents(f *testing.F) {
	f.Add(frames(started, of("TEXT_MESSAGE_START"), of("TEXT_MESSAGE_END"), finished), true)
	f.Add(": x\n\nevent: x\n"+frames(failed), false)
	f.Fuzz(func(t *testing.T, body string, v1 bool) {
		d := aguitest.V0
		if v1 {
			d = aguitest.V1
		}
		over := false
		for e, err := range aguitest.Events(strings.NewReader(body), d) {
			require.False(t, over)
			over = err != nil
			require.Equal(t, err == nil, e != nil)
		}
	})
}
