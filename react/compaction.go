package react

import (
	"context"
	"strings"

	"github.com/everstep-go/everstep/message"
)

// TokenCounter says how many tokens a message takes in a request. It must be safe for concurrent use.
type TokenCounter interface {
	Count(m message.Message) int
}

// CounterFunc is a func as a [TokenCounter].
type CounterFunc func(m message.Message) int

// Count calls f.
func (f CounterFunc) Count(m message.Message) int { return f(m) }

// ApproximateTokens takes four bytes of text for a token, and at least one token for a message. Only text counts:
// neither media nor the arguments of calls. CounterFunc(ApproximateTokens) is the default counter.
func ApproximateTokens(m message.Message) int {
	bytes := 0
	switch m := m.(type) {
	case *message.System:
		bytes = len(m.Content)
	case *message.User:
		for _, b := range m.Content {
			if text, ok := b.(message.Text); ok {
				bytes += len(text.Value)
			}
		}
	case *message.Assistant:
		bytes = len(m.Content)
	case *message.Tool:
		bytes = len(m.Text())
	case *message.Reasoning:
		bytes = len(m.Content)
	}
	return max(1, bytes/4)
}

// Budget is how many tokens of a model's context window a request may take.
type Budget struct {
	// ContextWindow is that of models which are not in Windows. Zero: theirs has no limit.
	ContextWindow int
	// Windows are the context windows of models, by name or by what their names begin with: the
	// longest that fits counts. See [ContextWindows].
	Windows map[string]int
	// OutputReserve is kept free for the reply.
	OutputReserve int
}

// For returns what a model has left for the prompt and the conversation, zero for no limit.
func (b Budget) For(model string) int {
	window, longest := b.ContextWindow, -1
	for begin, size := range b.Windows {
		if len(begin) > longest && strings.HasPrefix(model, begin) {
			window, longest = size, len(begin)
		}
	}
	return max(0, window-b.OutputReserve)
}

// ContextWindows returns the context windows of well-known models as their providers had published
// them in 2025, for [Budget.Windows]: a copy, to be corrected and added to.
func ContextWindows() map[string]int {
	return map[string]int{
		"claude-": 200_000, "gemini-": 1_048_576,
		"gpt-3.5": 16_385, "gpt-4": 8_192, "gpt-4-turbo": 128_000, "gpt-4o": 128_000, "gpt-4.1": 1_047_576, "gpt-5": 400_000,
		"o1": 200_000, "o3": 200_000, "o4": 200_000,
	}
}

// Compaction makes a conversation fit the budget that the prompt leaves. It is asked before every call of the
// model that would be over it; what is stored does not change. See [TailWindow].
type Compaction interface {
	// Compact returns the messages to send, in their order. It must neither change the messages nor their
	// slice. Whatever it returns, the request is made well formed afterwards.
	Compact(ctx context.Context, messages []message.Message, budget int, count TokenCounter) ([]message.Message, error)
}

// TailWindow is the [Compaction] that forgets the oldest first. What belongs together stays together: an
// assistant message, the reasoning directly before it and the results of its calls.
//
// It keeps the last user turn and, if the model has not answered them yet, the calls and results that the
// conversation ends with, even if those alone are over the budget. What it keeps never begins with an answer to a
// question that it forgot.
type TailWindow struct{}

// Compact implements [Compaction]. Within the budget it returns messages itself.
func (TailWindow) Compact(_ context.Context, messages []message.Message, budget int, count TokenCounter) ([]message.Message, error) {
	if count == nil {
		count = CounterFunc(ApproximateTokens)
	}
	groups, of := groupMessages(messages)
	total := 0
	for i, m := range messages {
		n := count.Count(m)
		total += n
		groups[of[i]].tokens += n
	}
	if total <= budget {
		return messages, nil
	}
	drop := func(g *messageGroup) {
		if !g.dropped {
			g.dropped = true
			total -= g.tokens
		}
	}
	hasTurn := pinGroups(messages, groups, of)
	for i := range groups {
		if groups[i].orphan { // no model will see it anyway
			drop(&groups[i])
		}
	}
	for _, most := range []pin{unpinned, pinnedIfFits} {
		for i := range groups {
			if total > budget && groups[i].pin <= most {
				drop(&groups[i])
			}
		}
	}
	if hasTurn {
		dropHeadless(groups, drop)
	}

	var kept []message.Message
	for i, m := range messages {
		if !groups[of[i]].dropped {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

// messageGroup is what is kept or dropped together.
type messageGroup struct {
	role    message.Role // of its first message
	tokens  int
	pin     pin
	orphan  bool // a result without a call before it
	dropped bool
}

type pin int

const (
	unpinned     pin = iota
	pinnedIfFits     // dropped only after all that is not pinned
	pinned
)

// groupMessages returns the groups in the order in which they begin, and for each message the index of its own.
func groupMessages(messages []message.Message) (groups []messageGroup, of []int) {
	of = make([]int, len(messages))
	caller := map[string]int{} // the group that has last used the id of a call, as in message.WellFormed
	thought := -1              // the group of the reasoning that the next assistant message takes up
	for i, m := range messages {
		g := -1
		switch m := m.(type) {
		case *message.Reasoning, *message.Assistant:
			g = thought
		case *message.Tool:
			if at, ok := caller[m.ToolCallID]; ok {
				g = at
			}
		}
		if g < 0 {
			g = len(groups)
			groups = append(groups, messageGroup{role: m.Role(), orphan: m.Role() == message.RoleTool})
		}
		of[i] = g
		switch m := m.(type) { // tool and system messages do not stand in a request where they stand here
		case *message.Reasoning:
			thought = g
		case *message.Assistant:
			thought = -1
			for _, c := range m.ToolCalls {
				caller[c.ID] = g
			}
		case *message.User:
			thought = -1
		}
	}
	return groups, of
}

// pinGroups pins what the request is about: the last user turn, and the last calls if no assistant message
// follows them.
//
// When user messages follow those calls, it cannot tell a tool's note, which the model is to read beside the
// results, from a new question after a run that failed, perhaps because these very results are too long. So
// then the calls and the turn that led to them stay only if they fit.
func pinGroups(messages []message.Message, groups []messageGroup, of []int) (hasTurn bool) {
	calls := len(messages) - 1
	for calls >= 0 && messages[calls].Role() != message.RoleAssistant {
		calls--
	}
	if calls >= 0 && len(messages[calls].(*message.Assistant).ToolCalls) == 0 {
		calls = -1
	}
	turn := pinTurn(messages, groups, of, len(messages), pinned)
	switch {
	case calls < 0:
	case calls > turn:
		groups[of[calls]].pin = pinned
	default:
		groups[of[calls]].pin = pinnedIfFits
		pinTurn(messages, groups, of, calls, pinnedIfFits)
	}
	return turn >= 0
}

// pinTurn pins the last user messages before end that directly follow each other, and returns the index of the
// last one, -1 if there is none.
func pinTurn(messages []message.Message, groups []messageGroup, of []int, end int, p pin) (last int) {
	last = -1
	for i := end - 1; i >= 0; i-- {
		switch messages[i].Role() {
		case message.RoleUser:
			last = max(last, i)
			groups[of[i]].pin = max(groups[of[i]].pin, p)
		case message.RoleSystem: // is no turn
		default:
			if last >= 0 {
				return last
			}
		}
	}
	return last
}

// dropHeadless drops the answers that are left before the first user message: providers refuse a conversation
// that the model begins.
func dropHeadless(groups []messageGroup, drop func(*messageGroup)) {
	for i := range groups {
		g := &groups[i]
		switch {
		case g.dropped, g.role == message.RoleSystem:
		case g.role == message.RoleUser, g.pin == pinned:
			return
		default:
			drop(g)
		}
	}
}
