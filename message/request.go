package message

import (
	"encoding/json"
	"fmt"
)

// Request is what a model is asked.
type Request struct {
	// Model is the provider's name of the model.
	Model string
	// System is the prompt and the system texts of the conversation, joined by newlines; empty for none.
	System string
	// Messages is the conversation, as [WellFormed] returns it: without system messages, and with every tool
	// call directly followed by its result.
	Messages []Message
	// Tools are what the model may call, in an order that does not change from request to request.
	Tools []ToolSpec
	// Params tune the model; what is not set is left to the provider.
	Params Params
	// Output is the JSON schema that the reply must satisfy; nil for free text.
	Output json.RawMessage
}

// Validate reports whether the request can be sent: its messages are well formed and the last one is for the
// model to answer, so a user or a tool message. The error wraps [ErrInvalidRequest].
func (r *Request) Validate() error {
	if len(r.Messages) == 0 {
		return fmt.Errorf("%w: no messages", ErrInvalidRequest)
	}
	if n := wellFormed(r.Messages, 0); n < len(r.Messages) {
		return fmt.Errorf("%w: message %d does not fit; see WellFormed", ErrInvalidRequest, n)
	}
	switch m := r.Messages[len(r.Messages)-1]; m.(type) {
	case *User, *Tool:
		return nil
	default:
		return fmt.Errorf("%w: the last message is of role %s, not user or tool", ErrInvalidRequest, m.Role())
	}
}

// ToolSpec is what a model is told about a tool.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON schema of the arguments
}

// Params tune a model. What is nil is not set.
type Params struct {
	MaxTokens        *uint64         `json:"max_tokens,omitempty"`
	Temperature      *float64        `json:"temperature,omitempty"`
	TopP             *float64        `json:"top_p,omitempty"`
	TopK             *uint32         `json:"top_k,omitempty"`
	StopSequences    []string        `json:"stop_sequences,omitzero"` // empty but not nil is set: none
	FrequencyPenalty *float64        `json:"frequency_penalty,omitempty"`
	PresencePenalty  *float64        `json:"presence_penalty,omitempty"`
	Seed             *uint64         `json:"seed,omitempty"`
	ProviderParams   json.RawMessage `json:"provider_params,omitempty"` // an object the provider understands
}

// Over returns base with everything replaced that is set in p. ProviderParams are replaced as a whole.
func (p Params) Over(base Params) Params {
	return Params{
		MaxTokens:        either(p.MaxTokens, base.MaxTokens),
		Temperature:      either(p.Temperature, base.Temperature),
		TopP:             either(p.TopP, base.TopP),
		TopK:             either(p.TopK, base.TopK),
		StopSequences:    eitherSlice(p.StopSequences, base.StopSequences),
		FrequencyPenalty: either(p.FrequencyPenalty, base.FrequencyPenalty),
		PresencePenalty:  either(p.PresencePenalty, base.PresencePenalty),
		Seed:             either(p.Seed, base.Seed),
		ProviderParams:   eitherRaw(p.ProviderParams, base.ProviderParams),
	}
}

func either[T any](p, base *T) *T {
	if p != nil {
		return p
	}
	return base
}

func eitherSlice[T any](p, base []T) []T {
	if p != nil {
		return p
	}
	return base
}

// eitherRaw takes a JSON null, which decoding leaves in a RawMessage, for not set.
func eitherRaw(p, base json.RawMessage) json.RawMessage {
	if len(p) > 0 && string(p) != "null" {
		return p
	}
	return base
}
