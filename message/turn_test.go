package message_test

import (
	"testing"

	"github.com/everstep-go/everstep/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func call(id string) message.ToolCall { return message.ToolCall{ID: id, Name: "tool_" + id} }

func turns(msgs ...message.Message) []message.Turn {
	return (&message.Request{Messages: msgs}).Turns()
}

func TestToolMessagesThatFollowEachOtherAreOneUserTurn(t *testing.T) {
	t.Parallel()
	got := turns(message.NewAssistant("", call("a"), call("b")), message.NewTool("a", "1"), message.NewTool("b", "2"))
	require.Len(t, got, 2)
	assert.Equal(t, message.UserTurn{Parts: []message.Part{
		message.ToolResult{CallID: "a", Name: "tool_a", Content: "1"},
		message.ToolResult{CallID: "b", Name: "tool_b", Content: "2"},
	}}, got[1])
}

func TestOneToolMessageIsOneUserTurn(t *testing.T) {
	t.Parallel()
	m := message.NewTool("a", "1")
	m.Name = "weather"
	assert.Equal(t, []message.Turn{
		message.UserTurn{Parts: []message.Part{message.ToolResult{CallID: "a", Name: "weather", Content: "1"}}},
	}, turns(m))
}

func TestReasoningJoinsTheAssistantMessageItLedTo(t *testing.T) {
	t.Parallel()
	one, two := message.NewReasoning("hm", ""), message.NewReasoning("", "opaque")
	assert.Equal(t, []message.Turn{
		message.AssistantTurn{Reasoning: []*message.Reasoning{one, two}, Text: "yes", ToolCalls: []message.ToolCall{call("a")}},
	}, turns(one, two, message.NewAssistant("yes", call("a"))))
}

func TestToolResultsAreNotMergedAcrossAnAssistantTurn(t *testing.T) {
	t.Parallel()
	got := turns(
		message.NewAssistant("", call("a")), message.NewTool("a", "1"),
		message.NewAssistant("", call("b")), message.NewTool("b", "2"),
	)
	require.Len(t, got, 4)
	assert.Len(t, got[1].(message.UserTurn).Parts, 1)
	assert.Len(t, got[3].(message.UserTurn).Parts, 1)
}

func TestAFailedResultIsToldAsAnError(t *testing.T) {
	t.Parallel()
	silent := &message.Tool{ToolCallID: "b"}
	assert.Equal(t, []message.Turn{message.UserTurn{Parts: []message.Part{
		message.ToolResult{CallID: "a", Content: "Error: no such city", Failed: true},
		message.ToolResult{CallID: "b"},
	}}}, turns(message.NewToolError("a", "no such city"), silent))
}

func TestUserBlocksBecomePartsInOrder(t *testing.T) {
	t.Parallel()
	blocks := []message.Block{message.Text{Value: "a"}, message.Media{Kind: message.Image}, message.Text{Value: "b"}}
	assert.Equal(t, []message.Turn{
		message.UserTurn{Parts: []message.Part{blocks[0], blocks[1], blocks[2]}},
		message.UserTurn{Parts: []message.Part{message.Text{Value: "c"}}},
	}, turns(message.NewUserBlocks(blocks...), message.NewUser("c")))
}

func TestTurnsWithNothingToSayAreLeftOut(t *testing.T) {
	t.Parallel()
	got := turns(
		message.NewReasoning("cut off", ""), message.NewUser("a"),
		message.NewReasoning("late", ""), message.NewTool("t", "1"), message.NewAssistant("z"),
		message.NewReasoning("hm", ""), message.NewAssistant(""),
		message.NewAssistant("b"), message.NewUser("c"), message.NewReasoning("last", ""),
	)
	assert.Equal(t, []message.Turn{
		message.UserTurn{Parts: []message.Part{message.Text{Value: "a"}}},
		message.UserTurn{Parts: []message.Part{message.ToolResult{CallID: "t", Content: "1"}}},
		message.AssistantTurn{Text: "z"},
		message.AssistantTurn{Text: "b"},
		message.UserTurn{Parts: []message.Part{message.Text{Value: "c"}}},
	}, got)
}
