package event

import "slices"

// Kind names a kind of event on the wire.
type Kind string

// The kinds. See the type of the same name for what each says.
const (
	KindRunStarted              Kind = "run_started"
	KindRunFinished             Kind = "run_finished"
	KindRunError                Kind = "run_error"
	KindTextMessageStart        Kind = "text_message_start"
	KindTextMessageContent      Kind = "text_message_content"
	KindTextMessageEnd          Kind = "text_message_end"
	KindReasoningStart          Kind = "reasoning_start"
	KindReasoningEnd            Kind = "reasoning_end"
	KindReasoningMessageStart   Kind = "reasoning_message_start"
	KindReasoningMessageContent Kind = "reasoning_message_content"
	KindReasoningMessageEnd     Kind = "reasoning_message_end"
	KindReasoningSignature      Kind = "reasoning_signature"
	KindToolCallStart           Kind = "tool_call_start"
	KindToolCallArgs            Kind = "tool_call_args"
	KindToolCallEnd             Kind = "tool_call_end"
	KindToolCallResult          Kind = "tool_call_result"
	KindToolCallError           Kind = "tool_call_error"
	KindActivityDelta           Kind = "activity_delta"
	KindStateSnapshot           Kind = "state_snapshot"
	KindStateDelta              Kind = "state_delta"
	KindMessagesSnapshot        Kind = "messages_snapshot"
)

var kinds = []Kind{
	KindRunStarted, KindRunFinished, KindRunError,
	KindTextMessageStart, KindTextMessageContent, KindTextMessageEnd,
	KindReasoningStart, KindReasoningEnd,
	KindReasoningMessageStart, KindReasoningMessageContent, KindReasoningMessageEnd,
	KindReasoningSignature,
	KindToolCallStart, KindToolCallArgs, KindToolCallEnd, KindToolCallResult, KindToolCallError,
	KindActivityDelta, KindStateSnapshot, KindStateDelta, KindMessagesSnapshot,
}

// Kinds returns all 21 kinds.
func Kinds() []Kind { return slices.Clone(kinds) }
