package message_test

import (
	"fmt"
	"testing"

	"github.com/everstep-go/everstep/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// story tells a conversation in one line.
func story(msgs []message.Message) (lines []string) {
	for _, m := range msgs {
		line := string(m.Role())
		switch m := m.(type) {
		case *message.User:
			line += " " + m.Content[0].(message.Text).Value
		case *message.Assistant:
			line += " " + m.Content
			for _, c := range m.ToolCalls {
				line += " " + c.ID
			}
		case *message.Tool:
			line += " " + m.ToolCallID + ": " + m.Text()
		case *message.Reasoning:
			line += " " + m.Content
		}
		lines = append(lines, line)
	}
	return lines
}

func TestWellFormedRepairsAnyHistory(t *testing.T) {
	t.Parallel()
	user, assistant, tool := message.NewUser, message.NewAssistant, message.NewTool
	const none = ": Error: no result: the call was interrupted"
	tests := map[string]struct {
		in   []message.Message
		want []string
	}{
		"results in call order": {
			[]message.Message{assistant("x", call("a"), call("b")), tool("b", "2"), tool("a", "1")},
			[]string{"assistant x a b", "tool a: 1", "tool b: 2"}},
		"a late result moves to its call": {
			[]message.Message{assistant("x", call("a")), user("u"), assistant("y"), tool("a", "1"), user("v")},
			[]string{"assistant x a", "tool a: 1", "user u", "assistant y", "user v"}},
		"a call without a result": {
			[]message.Message{assistant("x", call("a"), call("b")), tool("b", "2"), user("u")},
			[]string{"assistant x a b", "tool a" + none, "tool b: 2", "user u"}},
		"a call at the end": {
			[]message.Message{user("u"), assistant("x", call("a"))},
			[]string{"user u", "assistant x a", "tool a" + none}},
		"a result without a call": {
			[]message.Message{tool("a", "1"), user("u"), tool("b", "2")},
			[]string{"user u"}},
		"a result before its call": {
			[]message.Message{tool("a", "1"), assistant("x", call("a"))},
			[]string{"assistant x a", "tool a" + none}},
		"a second result": {
			[]message.Message{assistant("x", call("a")), tool("a", "1"), user("u"), tool("a", "2")},
			[]string{"assistant x a", "tool a: 1", "user u"}},
		"an ID used again": {
			[]message.Message{assistant("x", call("a")), tool("a", "1"), assistant("y", call("a")), user("u"), tool("a", "2")},
			[]string{"assistant x a", "tool a: 1", "assistant y a", "tool a: 2", "user u"}},
		"a result belongs to the last call before it": {
			[]message.Message{assistant("x", call("a")), assistant("y", call("a")), tool("a", "1"), assistant("z", call("a"))},
			[]string{"assistant x a", "tool a" + none, "assistant y a", "tool a: 1", "assistant z a", "tool a" + none}},
		"an ID twice in one message": {
			[]message.Message{user("u"), assistant("x", call("a"), call("a")), tool("a", "1"), user("v"), tool("a", "2")},
			[]string{"user u", "assistant x a a", "tool a: 1", "tool a: 2", "user v"}},
		"reasoning stays where it is": {
			[]message.Message{message.NewReasoning("r", ""), assistant("x", call("a")), message.NewReasoning("s", ""), tool("a", "1")},
			[]string{"reasoning r", "assistant x a", "tool a: 1", "reasoning s"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := append([]message.Message(nil), tt.in...)
			fit, system := message.WellFormed(tt.in, 0)
			assert.Equal(t, tt.want, story(fit))
			assert.Empty(t, system)
			assert.Equal(t, before, tt.in, "the input")
		})
	}
}

func TestWellFormedReturnsSystemTextsInOrder(t *testing.T) {
	t.Parallel()
	fit, system := message.WellFormed([]message.Message{
		message.NewSystem("a"), message.NewAssistant("x", call("c")), message.NewSystem("b"), message.NewTool("c", "1"),
	}, 0)
	assert.Equal(t, []string{"a", "b"}, system)
	assert.Equal(t, []string{"assistant x c", "tool c: 1"}, story(fit))
}

func TestWellFormedSaysWhoseResultIsMissing(t *testing.T) {
	t.Parallel()
	m := message.NewAssistant("", call("a"))
	m.SessionID, m.RunID = id2, id3
	fit, _ := message.WellFormed([]message.Message{m}, 0)
	text := "no result: the call was interrupted"
	assert.Equal(t, &message.Tool{
		Header:     message.Header{SessionID: id2, RunID: id3, Name: "tool_a"},
		ToolCallID: "a", ParentMessageID: m.ID, Content: &text, Error: text,
	}, fit[1])
}

func TestWellFormedOfWellFormedIsTheSameSliceWithoutAllocation(t *testing.T) {
	in := []message.Message{
		message.NewUser("u"), message.NewReasoning("r", ""), message.NewAssistant("x", call("a"), call("b")),
		message.NewTool("a", "1"), message.NewTool("b", "2"), message.NewAssistant("y"),
	}
	fit, _ := message.WellFormed(in, 0)
	assert.Same(t, &in[0], &fit[0])
	assert.Len(t, fit, len(in))
	assert.Zero(t, testing.AllocsPerRun(100, func() { message.WellFormed(in, 0) }))
}

func TestWellFormedDoesNotLookAtWhatIsKnown(t *testing.T) {
	t.Parallel()
	in := []message.Message{
		message.NewTool("x", "not looked at"), message.NewSystem("nor this"),
		message.NewUser("u"), message.NewTool("a", "1"), message.NewUser("v"),
	}
	fit, system := message.WellFormed(in, 2)
	assert.Equal(t, []message.Message{in[0], in[1], in[2], in[4]}, fit)
	assert.Empty(t, system)
	fit, _ = message.WellFormed(in[:2], 2)
	assert.Len(t, fit, 2)
}

// FuzzWellFormed reads a conversation off a tape of bytes and checks every sentence of WellFormed's promise.
func FuzzWellFormed(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0x12, 3, 3, 0x21, 3, 4, 1, 0x13, 0x23, 0x33})
	f.Add([]byte{0x15, 0x25, 0x35, 1, 0x23, 0x13, 0x23, 0x12, 0x13})
	f.Fuzz(func(t *testing.T, tape []byte) {
		var in []message.Message
		results := map[string][]string{} // texts of results by call ID
		systems := 0
		for i, b := range tape {
			id := fmt.Sprint(b >> 4 & 3) // few IDs, so that they meet
			switch text := fmt.Sprint(i); b & 7 {
			case 0:
				in = append(in, message.NewUser(text))
			case 1:
				in = append(in, message.NewSystem(text))
				systems++
			case 2, 6:
				m := message.NewAssistant(text)
				for j := range b >> 6 {
					m.ToolCalls = append(m.ToolCalls, call(fmt.Sprint((b>>4+j)&3)))
				}
				in = append(in, m)
			case 3, 7:
				in = append(in, message.NewTool(id, text))
				results[id] = append(results[id], text)
			case 4:
				in = append(in, message.NewReasoning(text, ""))
			case 5:
				in = append(in, message.NewAssistant(text, call(id), call(id)))
			}
		}
		fit, system := message.WellFormed(in, 0)
		require.Len(t, system, systems)

		position := map[message.Message]int{}
		for i, m := range in {
			position[m] = i
		}
		last := -1                         // order of what is no result
		seen := map[message.Message]bool{} // nothing twice
		for i := 0; i < len(fit); i++ {
			m := fit[i]
			at, known := position[m]
			require.True(t, known && at > last && !seen[m], "message %d is out of order", i)
			last, seen[m] = at, true
			a, ok := m.(*message.Assistant)
			if !ok {
				require.NotEqual(t, message.RoleTool, m.Role(), "message %d is a stray result", i)
				require.NotEqual(t, message.RoleSystem, m.Role())
				continue
			}
			for _, c := range a.ToolCalls {
				i++
				require.Less(t, i, len(fit), "no result of call %s", c.ID)
				r, ok := fit[i].(*message.Tool)
				require.True(t, ok, "message %d is no result", i)
				require.Equal(t, c.ID, r.ToolCallID)
				require.False(t, seen[r])
				seen[r] = true
				if stored, known := position[r]; known {
					require.Greater(t, stored, at, "a result from before its call")
				} else {
					require.Equal(t, "no result: the call was interrupted", r.Error)
					// Nothing that could have been the result may be left: no unused result of the ID between
					// this call and the next one with it.
					for j := at + 1; j < len(in); j++ {
						if next, ok := in[j].(*message.Assistant); ok && uses(next, c.ID) {
							break
						}
						if left, ok := in[j].(*message.Tool); ok && left.ToolCallID == c.ID {
							require.True(t, seen[left], "result %d was dropped", j)
						}
					}
				}
			}
		}
		for _, m := range in {
			switch m.(type) {
			case *message.Tool, *message.System:
			default:
				require.True(t, seen[m], "%s was dropped", m.Role())
			}
		}

		again, system := message.WellFormed(fit, 0)
		require.Empty(t, system)
		require.Equal(t, len(fit), len(again))
		if len(fit) > 0 {
			require.Same(t, &fit[0], &again[0])
		}
		// The same history always gives the same messages.
		twice, _ := message.WellFormed(in, 0)
		require.Equal(t, fit, twice)
	})
}

func uses(m *message.Assistant, id string) bool {
	for _, c := range m.ToolCalls {
		if c.ID == id {
			return true
		}
	}
	return false
}

func BenchmarkWellFormed(b *testing.B) {
	var msgs []message.Message
	for range 500 {
		msgs = append(msgs, message.NewUser("u"), message.NewAssistant("", call("a")), message.NewTool("a", "1"), message.NewAssistant("x"))
	}
	for name, known := range map[string]int{"all": 0, "known": 1996} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				message.WellFormed(msgs, known)
			}
		})
	}
}
