package message_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func collect(deltas ...message.Delta) message.Reply {
	var c message.Collector
	for _, d := range deltas {
		c.Add(d)
	}
	return c.Reply()
}

func TestAReplyIsTheSumOfItsDeltas(t *testing.T) {
	t.Parallel()
	usage := message.Usage{InputTokens: 1, OutputTokens: 2, CachedInputTokens: 3, ReasoningTokens: 4}
	got := collect(
		message.ReasoningDelta{Text: "h"},
		message.TextDelta{Text: "I "},
		message.ReasoningDelta{Text: "m"},
		message.ReasoningDone{Text: "ignored", Signature: "s1"},
		message.ReasoningDone{Signature: "opaque"},
		message.ReasoningDone{Text: "whole"},
		message.ReasoningDone{},
		message.TextDelta{Text: "look."},
		message.ToolCallDelta{Index: 1, ID: "b", Name: "now"},
		message.ToolCallDelta{Index: 0, ID: "a", Name: "weather", Arguments: `{ "city"`},
		message.ToolCallDelta{Index: 0, Arguments: `: "Oslo" }`},
		message.ReasoningDelta{Text: "open"},
		message.Done{Usage: usage, FinishReason: message.FinishLength},
	)
	assert.Equal(t, message.Reply{
		Reasoning: []message.ReasoningDone{{Text: "hm", Signature: "s1"}, {Signature: "opaque"}, {Text: "whole"}, {Text: "open"}},
		Text:      "I look.",
		ToolCalls: []message.ToolCall{
			{ID: "b", Name: "now", Arguments: json.RawMessage(`{}`)},
			{ID: "a", Name: "weather", Arguments: json.RawMessage(`{"city":"Oslo"}`)},
		},
		Usage:        usage,
		FinishReason: message.FinishLength,
	}, got)
}

func TestFinishReasonsAreFilledIn(t *testing.T) {
	t.Parallel()
	assert.Equal(t, message.FinishUnknown, collect().FinishReason)
	assert.Equal(t, message.FinishToolCalls, collect(message.ToolCallDelta{ID: "a"}, message.Done{}).FinishReason)
	assert.Equal(t, message.FinishStop, collect(message.ToolCallDelta{ID: "a"}, message.Done{FinishReason: message.FinishStop}).FinishReason)
}

func TestCallIDsAreUnique(t *testing.T) {
	t.Parallel()
	var c message.Collector
	c.Add(message.ToolCallDelta{Index: 0, ID: "a", Name: "x"})
	c.Add(message.ToolCallDelta{Index: 0, ID: "a", Name: "x", Arguments: "1"}) // the same call
	c.Add(message.ToolCallDelta{Index: 1, ID: "a", Name: "y"})
	c.Add(message.ToolCallDelta{Index: 2, Name: "z"})
	c.Add(message.ToolCallDelta{Index: 2, ID: "late"})
	c.Add(message.ToolCallDelta{Index: 3, Name: "none"})
	c.Add(message.ToolCallDelta{Index: 0, ID: "other", Name: "w"}) // another call, though not another index
	r := c.Reply()
	require.Len(t, r.ToolCalls, 5)
	assert.Equal(t, message.ToolCall{ID: "a", Name: "x", Arguments: json.RawMessage("1")}, r.ToolCalls[0])
	assert.Regexp(t, `^call_[0-9a-f-]{36}$`, r.ToolCalls[1].ID)
	assert.Equal(t, "late", r.ToolCalls[2].ID)
	assert.Regexp(t, `^call_[0-9a-f-]{36}$`, r.ToolCalls[3].ID)
	assert.Equal(t, "other", r.ToolCalls[4].ID)
	assert.Equal(t, r, c.Reply(), "asked again")
}

func TestArgumentsThatAreNotJSONAreKeptAsText(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                        `{}`,
		" \n":                     `{}`,
		`{"a":`:                   `"{\"a\":"`,
		`{"a":9007199254740993}`:  `{"a":9007199254740993}`,
		`{"a":"\ud800"}`:          `{"a":"\ufffd"}`,
		"\"\xff\"":                `"\"\ufffd\""`,
		strings.Repeat("[", 1000): `"` + strings.Repeat("[", 1000) + `"`,
	}
	for in, want := range tests {
		got := collect(message.ToolCallDelta{ID: "a", Arguments: in})
		assert.Equal(t, want, string(got.ToolCalls[0].Arguments), in)
	}
}

func TestCollectReturnsWhatCameBeforeTheError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r, err := message.Collect(func(yield func(message.Delta, error) bool) {
		_ = yield(message.TextDelta{Text: "a"}, nil) && yield(nil, broken) && yield(message.TextDelta{Text: "b"}, nil)
	})
	require.ErrorIs(t, err, broken)
	assert.Equal(t, "a", r.Text)

	r, err = message.Collect(func(yield func(message.Delta, error) bool) {
		_ = yield(message.TextDelta{Text: "a"}, nil) && yield(message.Done{FinishReason: message.FinishStop}, nil)
	})
	require.NoError(t, err)
	assert.Equal(t, message.Reply{Text: "a", FinishReason: message.FinishStop}, r)
}

// FuzzCollector reads deltas off a tape: a byte for the kind, then a piece of text.
func FuzzCollector(f *testing.F) {
	f.Add("0hello|1hm|2sig|3{\"a\":|31}|4|5x|6")
	f.Add("3{|3\"a|3\":\xff|5|5|6|1|2|2")
	f.Fuzz(func(t *testing.T, tape string) {
		var c message.Collector
		var text, thought strings.Builder
		for _, s := range strings.Split(tape, "|") {
			if s == "" {
				continue
			}
			rest := s[1:]
			switch s[0] & 7 {
			case 0:
				c.Add(message.TextDelta{Text: rest})
				text.WriteString(rest)
			case 1:
				c.Add(message.ReasoningDelta{Text: rest})
				thought.WriteString(rest)
			case 2:
				c.Add(message.ReasoningDone{Signature: rest})
			case 3:
				c.Add(message.ToolCallDelta{Index: len(rest) & 1, Arguments: rest})
			case 4:
				c.Add(message.ToolCallDelta{Index: len(rest), ID: rest, Name: rest})
			case 5:
				c.Add(message.ToolCallDelta{Index: 2, ID: rest})
			case 6:
				c.Add(message.Done{FinishReason: message.FinishReason(rest)})
			case 7:
				c.Add(nil)
			}
		}
		r := c.Reply()
		require.Equal(t, text.String(), r.Text)
		require.NotEmpty(t, r.FinishReason)
		var thoughts string
		for _, b := range r.Reasoning {
			require.NotEqual(t, message.ReasoningDone{}, b)
			thoughts += b.Text
		}
		require.Equal(t, thought.String(), thoughts)
		ids := map[string]bool{"": true}
		for _, call := range r.ToolCalls {
			require.False(t, ids[call.ID], "call ID %q", call.ID)
			ids[call.ID] = true
			clean, err := wire.Clean(call.Arguments)
			require.NoError(t, err)
			require.Equal(t, string(clean), string(call.Arguments))
		}
		require.Equal(t, r, c.Reply())
		// Every reply can be stored.
		_, err := message.EncodeBody(message.NewAssistant(r.Text, r.ToolCalls...))
		require.NoError(t, err)
	})
}
