package agui

import (
	"slices"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/message"
)

// usage is the tokens of a run by the model that took them.
type usage struct {
	Model             string `json:"model,omitempty"`
	InputTokens       int64  `json:"inputTokens"`
	OutputTokens      int64  `json:"outputTokens"`
	TotalTokens       int64  `json:"totalTokens"`
	ReasoningTokens   int64  `json:"reasoningTokens,omitempty"`
	CachedInputTokens int64  `json:"cachedInputTokens,omitempty"`
}

// usageOf adds up the model calls of a run.
func usageOf(messages []message.Message, run uuid.UUID) (total []usage) {
	for _, m := range messages {
		if m.Role() != message.RoleAssistant || m.Head().RunID != run {
			continue
		}
		info := message.ReplyInfoOf(m)
		if info.Usage == (message.Usage{}) {
			continue
		}
		i := slices.IndexFunc(total, func(u usage) bool { return u.Model == info.Model })
		if i < 0 {
			i = len(total)
			total = append(total, usage{Model: info.Model})
		}
		u := &total[i]
		u.InputTokens += info.Usage.InputTokens
		u.OutputTokens += info.Usage.OutputTokens
		u.TotalTokens += info.Usage.InputTokens + info.Usage.OutputTokens
		u.ReasoningTokens += info.Usage.ReasoningTokens
		u.CachedInputTokens += info.Usage.CachedInputTokens
	}
	return total
}
