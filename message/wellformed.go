package message

// noResult is what a model hears about a call that never got a result.
const noResult = "no result: the call was interrupted"

// WellFormed returns msgs in the form that providers insist on, for [Request.Messages], and the texts of the
// system messages in order. Whatever msgs holds,
//
//   - every tool call is directly followed by exactly one result, in the order of the calls, wherever after the
//     call the result was stored;
//   - a call without a result gets a made-up one that says so in its Error;
//   - results without a call before them, and second results of a call, are left out;
//   - system messages are left out;
//   - the order is otherwise that of msgs.
//
// If a call ID occurs in several assistant messages, a result belongs to the last of them before it.
//
// The first known messages are taken to be well formed already, as the messages of an earlier request of the
// same conversation are; results after them never belong to calls among them. If all of msgs is well formed,
// WellFormed returns msgs itself and allocates nothing; it never changes the messages or their slice.
func WellFormed(msgs []Message, known int) (fit []Message, system []string) {
	n := wellFormed(msgs, known)
	if n == len(msgs) {
		return msgs, nil
	}
	results := match(msgs[n:])
	fit = append(make([]Message, 0, len(msgs)+1), msgs[:n]...)
	for at, m := range msgs[n:] {
		switch m := m.(type) {
		case *System:
			system = append(system, m.Content)
		case *Tool: // stands after its call, or is left out
		case *Assistant:
			fit = append(fit, m)
			for i, r := range results[at] {
				if r == nil {
					r = missing(m, m.ToolCalls[i])
				}
				fit = append(fit, r)
			}
		default:
			fit = append(fit, m)
		}
	}
	return fit, system
}

// wellFormed returns how many messages at the start of msgs are well formed; calls whose results are not all
// there do not count.
func wellFormed(msgs []Message, known int) int {
	for i := known; i < len(msgs); i++ {
		switch m := msgs[i].(type) {
		case *System, *Tool:
			return i
		case *Assistant:
			for j, c := range m.ToolCalls {
				if i+1+j >= len(msgs) {
					return i
				}
				if r, ok := msgs[i+1+j].(*Tool); !ok || r.ToolCallID != c.ID {
					return i
				}
			}
			i += len(m.ToolCalls)
		}
	}
	return len(msgs)
}

// match finds the results of the calls of the assistant messages, by their index; nil where there is none.
func match(msgs []Message) map[int][]*Tool {
	results := make(map[int][]*Tool)
	caller := make(map[string]int) // the last assistant message that used the call ID
	for at, m := range msgs {
		switch m := m.(type) {
		case *Assistant:
			results[at] = make([]*Tool, len(m.ToolCalls))
			for _, c := range m.ToolCalls {
				caller[c.ID] = at
			}
		case *Tool:
			at, ok := caller[m.ToolCallID]
			if !ok {
				continue
			}
			for i, c := range msgs[at].(*Assistant).ToolCalls {
				if c.ID == m.ToolCallID && results[at][i] == nil {
					results[at][i] = m
					break
				}
			}
		}
	}
	return results
}

// missing makes the result up. It has no ID of its own: it is never stored, and the same history must give the
// same request.
func missing(m *Assistant, c ToolCall) *Tool {
	text := noResult
	return &Tool{
		Header:          Header{SessionID: m.SessionID, RunID: m.RunID, CreatedAt: m.CreatedAt, Name: c.Name},
		ToolCallID:      c.ID,
		ParentMessageID: m.ID,
		Content:         &text,
		Error:           text,
	}
}
