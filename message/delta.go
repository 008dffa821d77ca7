package message

// Delta is one piece of a model's reply as it arrives: a [TextDelta], [ReasoningDelta], [ReasoningDone],
// [ToolCallDelta] or [Done] value. Text and reasoning may interleave.
type Delta interface{ sealedDelta() }

// TextDelta is more text.
type TextDelta struct{ Text string }

// ReasoningDelta is more of the reasoning block that is open; the first one opens it.
type ReasoningDelta struct{ Text string }

// ReasoningDone ends the open reasoning block, or stands for a whole block that came without deltas.
type ReasoningDone struct {
	Text      string // the whole text, if the block came without deltas; else it is ignored
	Signature string // what the provider wants back with the block; may be empty
}

// ToolCallDelta is more of a tool call. The deltas of one call share an Index; ID and Name are in the first
// and may be repeated. Another ID under the same Index begins another call.
type ToolCallDelta struct {
	Index     int
	ID, Name  string
	Arguments string // a piece of the JSON text
}

// Done is the last delta of a complete reply.
type Done struct {
	Usage        Usage
	FinishReason FinishReason
	Model        string // that answered, as its provider names it; may be empty
}

// Usage counts tokens.
type Usage struct {
	InputTokens       int64 `json:"input_tokens"`
	OutputTokens      int64 `json:"output_tokens"`
	CachedInputTokens int64 `json:"cached_input_tokens"` // part of InputTokens
	ReasoningTokens   int64 `json:"reasoning_tokens"`    // part of OutputTokens
}

// Plus returns the sum.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens,
		CachedInputTokens: u.CachedInputTokens + v.CachedInputTokens, ReasoningTokens: u.ReasoningTokens + v.ReasoningTokens,
	}
}

// FinishReason says why a model stopped.
type FinishReason string

// The reasons to stop.
const (
	FinishStop          FinishReason = "stop"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishLength        FinishReason = "length"         // the limit of tokens
	FinishContentFilter FinishReason = "content_filter" // the provider cut it off
	FinishRefusal       FinishReason = "refusal"        // the model does not want to answer
	FinishUnknown       FinishReason = "unknown"
)

func (TextDelta) sealedDelta()      {}
func (ReasoningDelta) sealedDelta() {}
func (ReasoningDone) sealedDelta()  {}
func (ToolCallDelta) sealedDelta()  {}
func (Done) sealedDelta()           {}
