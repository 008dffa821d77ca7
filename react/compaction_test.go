package react

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
)

// conversation reads messages from words: u and s with a name are of a user and the system, r is reasoning, a an
// assistant message, with its calls after colons, and t the result of a call. Each counts 1 token, or what follows
// "*".
func conversation(text string) (msgs []message.Message, count TokenCounter) {
	weight := map[message.Message]int{}
	for word := range strings.FieldsSeq(text) {
		name, n, heavy := strings.Cut(word, "*")
		parts := strings.Split(name, ":")
		var m message.Message
		switch name[0] {
		case 'u':
			m = message.NewUser(name)
		case 's':
			m = message.NewSystem(name)
		case 'r':
			m = message.NewReasoning(name, "")
		case 'a':
			var calls []message.ToolCall
			for _, id := range parts[1:] {
				calls = append(calls, message.ToolCall{ID: id, Name: "t"})
			}
			m = message.NewAssistant(name, calls...)
		case 't':
			m = message.NewTool(parts[1], name)
		}
		m.Head().ID, m.Head().Name = uuid.New(), word
		weight[m] = 1
		if heavy {
			var w int
			_, _ = fmt.Sscan(n, &w)
			weight[m] = w
		}
		msgs = append(msgs, m)
	}
	return msgs, CounterFunc(func(m message.Message) int { return weight[m] })
}

func words(msgs []message.Message) string {
	var list []string
	for _, m := range msgs {
		list = append(list, m.Head().Name)
	}
	return strings.Join(list, " ")
}

func TestTailWindowForgetsTheOldestFirst(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in     string
		budget int
		want   string
	}{
		"nothing":                               {"", 0, ""},
		"within the budget":                     {"u1 a1 u2", 3, "u1 a1 u2"},
		"even a result without its call":        {"t:x u1", 2, "t:x u1"},
		"one over":                              {"u1 a1 u2 a2 u3", 4, "u2 a2 u3"},
		"an answer goes with its question":      {"u1 a1*5 u2", 6, "u2"},
		"two over":                              {"u1 a1 u2 a2 u3", 3, "u2 a2 u3"},
		"a tool group is one":                   {"u1 a1:x:y t:x t:y a2 u2", 5, "u2"},
		"a tool group fits":                     {"u1 a1 u2 a2:x:y t:x t:y a3 u3", 6, "u2 a2:x:y t:x t:y a3 u3"},
		"late results go with their call":       {"u1 a1:x u2 a2 t:x u3", 4, "u2 a2 u3"},
		"and stay with it":                      {"u0 a0*5 u1 a1:x u2 t:x u3", 5, "u1 a1:x u2 t:x u3"},
		"reasoning goes with its answer":        {"u1 r1*4 a1 u2 a2 u3", 3, "u2 a2 u3"},
		"two blocks of it as well":              {"u1 r1 r2 a1 u2 r3 r4 a2 u3", 5, "u2 r3 r4 a2 u3"},
		"reasoning not directly before":         {"r1 u1 a1 u2", 3, "u1 a1 u2"},
		"directly before in the request":        {"u1 a1:x r2 t:x s1 a2 u2", 6, "s1 u2"},
		"the last user turn stays":              {"u1 a1 u2*9", 3, "u2*9"},
		"all of it":                             {"u1 a1 u2*9 s1 u3*9", 3, "u2*9 u3*9"},
		"the current tool group stays":          {"u1 a1 u2 r2 a2:x t:x*9", 3, "u2 r2 a2:x t:x*9"},
		"even without a user":                   {"a1 a2:x t:x*9", 3, "a2:x t:x*9"},
		"and others go before the turn's steps": {"u1 a1 u2 a2:x t:x a3:y t:y", 5, "u2 a2:x t:x a3:y t:y"},
		"steps of the turn go one by one":       {"u1 a1:x t:x a2:y t:y a3:z t:z", 5, "u1 a2:y t:y a3:z t:z"},
		"but not the last":                      {"u1 a1:x t:x a2:y t:y a3:z t:z", 1, "u1 a3:z t:z"},
		"an answered group is not current":      {"u1 a1:x t:x*9 a2 u2", 3, "u2"},
		"pending calls are current":             {"u1 a1 u2 a2:x:y t:x", 4, "u2 a2:x:y t:x"},
		"a note of a tool keeps the group":      {"u0 a0 u1 a1:x t:x u2", 4, "u1 a1:x t:x u2"},
		"and the turn that led to it":           {"u1 a1:x t:x a2:y t:y u2", 4, "u1 a2:y t:y u2"},
		"as long as it fits":                    {"u0 a0 u1 a1:x t:x*9 u2", 4, "u2"},
		"results without a call go first":       {"u1 a1 t:x*9 u2", 3, "u1 a1 u2"},
		"results before their call":             {"t:x u1 a1 u2 a2:x", 4, "u1 a1 u2 a2:x"},
		"a second result is in the group":       {"u1 a1:x t:x t:x u2 a2 u3", 4, "u2 a2 u3"},
		"an id that two calls have":             {"u1 a1:x t:x u2 a2:x t:x u3", 4, "u2 a2:x t:x u3"},
		"system messages are like others":       {"s1 u1 a1 u2", 3, "u1 a1 u2"},
		"and do not hide a headless answer":     {"u1 s1 a1 u2", 3, "s1 u2"},
		"only answers":                          {"a1 a2 a3", 2, "a2 a3"},
		"no budget at all":                      {"u1 a1 u2", -5, "u2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, count := conversation(tt.in)
			before := slices.Clone(in)
			got, err := TailWindow{}.Compact(t.Context(), in, tt.budget, count)
			require.NoError(t, err)
			assert.Equal(t, tt.want, words(got))
			assert.Equal(t, before, in, "the input is left alone")
		})
	}
}

func TestTailWindowCountsByDefaultAsTheLibraryDoes(t *testing.T) {
	t.Parallel()
	in := []message.Message{message.NewUser(strings.Repeat("x", 400)), message.NewAssistant("y"), message.NewUser("z")}
	got, err := TailWindow{}.Compact(t.Context(), in, 102, nil)
	require.NoError(t, err)
	assert.Len(t, got, 3)
	got, err = TailWindow{}.Compact(t.Context(), in, 101, nil)
	require.NoError(t, err)
	assert.Equal(t, in[2:], got)
}

func TestApproximateTokensCountsTextOnly(t *testing.T) {
	t.Parallel()
	image := message.Media{Kind: message.Image, MediaType: "image/png",
		Source: message.Source{Type: message.SourceBase64, Value: strings.Repeat("A", 4000)}}
	text := message.Text{Value: "12345678"}
	call := message.ToolCall{ID: "x", Name: "t", Arguments: []byte(`{"a":"` + strings.Repeat("x", 4000) + `"}`)}
	for name, tt := range map[string]struct {
		m    message.Message
		want int
	}{
		"at least one":         {message.NewUser(""), 1},
		"three bytes":          {message.NewUser("123"), 1},
		"seven bytes":          {message.NewUser("1234567"), 1},
		"eight bytes":          {message.NewUser("12345678"), 2},
		"bytes, not runes":     {message.NewSystem("ééééé"), 2},
		"all blocks of text":   {message.NewUserBlocks(text, image, text), 4},
		"only media":           {message.NewUserBlocks(image), 1},
		"no arguments":         {message.NewAssistant("12345678", call), 2},
		"a result":             {message.NewTool("x", "123456789012"), 3},
		"a failure":            {&message.Tool{Error: "12345"}, 3}, // "Error: 12345"
		"reasoning, unsigned":  {message.NewReasoning("12345678", strings.Repeat("s", 400)), 2},
		"a result without any": {&message.Tool{}, 1},
	} {
		assert.Equal(t, tt.want, ApproximateTokens(tt.m), name)
		assert.Equal(t, tt.want, CounterFunc(ApproximateTokens).Count(tt.m), name)
	}
}

func TestABudgetIsNeverNegative(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 70, Budget{ContextWindow: 100, OutputReserve: 30}.For("m"))
	assert.Equal(t, 0, Budget{ContextWindow: 100, OutputReserve: 100}.For("m"))
	assert.Equal(t, 0, Budget{ContextWindow: 100, OutputReserve: 130}.For("m"))
	assert.Equal(t, 0, Budget{}.For("m"))
}

// checkWindow holds what is true of any conversation.
func checkWindow(t *testing.T, in []message.Message, budget int, count TokenCounter) {
	t.Helper()
	before := slices.Clone(in)
	got, err := TailWindow{}.Compact(t.Context(), in, budget, count)
	require.NoError(t, err)
	require.Equal(t, before, in)
	sum := func(msgs []message.Message) (n int) {
		for _, m := range msgs {
			n += count.Count(m)
		}
		return n
	}
	if sum(in) <= budget {
		require.Equal(t, in, got)
		return
	}

	kept := map[message.Message]bool{}
	at := 0
	for _, m := range got {
		i := slices.Index(in[at:], m)
		require.GreaterOrEqual(t, i, 0, "the result is a subsequence")
		at += i + 1
		kept[m] = true
	}
	lastUser, lastAssistant := -1, -1
	for i, m := range in {
		switch m.Role() {
		case message.RoleUser:
			lastUser = i
		case message.RoleAssistant:
			lastAssistant = i
		}
	}
	if lastUser >= 0 {
		require.True(t, kept[in[lastUser]], "the last user message stays")
		for i, m := range got {
			if m.Role() == message.RoleUser {
				break
			}
			if m.Role() != message.RoleSystem {
				// Only the open calls may stand there, and only if no user message did before.
				require.Less(t, -1, lastAssistant)
				require.Greater(t, lastAssistant, lastUser, "message %d of %s", i, words(got))
			}
		}
	}
	if lastAssistant > lastUser && len(in[lastAssistant].(*message.Assistant).ToolCalls) > 0 {
		require.True(t, kept[in[lastAssistant]], "the current calls stay")
	}

	// What is made of the result is what was made of the input, less some messages: no call has lost its result,
	// and no result its call.
	fitIn, _ := message.WellFormed(in, 0)
	fit, _ := message.WellFormed(got, 0)
	results := map[string]string{}
	for i, m := range fitIn {
		if tool, ok := m.(*message.Tool); ok {
			results[fmt.Sprint(parent(fitIn, i), tool.ToolCallID)] = tool.Text()
		}
	}
	for i, m := range fit {
		tool, ok := m.(*message.Tool)
		if !ok {
			if m.Role() == message.RoleAssistant && i > 0 {
				old := slices.Index(fitIn, m)
				require.Equal(t, old > 0 && fitIn[old-1].Role() == message.RoleReasoning, fit[i-1].Role() == message.RoleReasoning,
					"reasoning stays with its answer")
			}
			continue
		}
		require.Equal(t, results[fmt.Sprint(parent(fit, i), tool.ToolCallID)], tool.Text())
	}
	for _, m := range got {
		if tool, ok := m.(*message.Tool); ok && !slices.Contains(fit, m) {
			// A second result of a call is left out of the request, here as in the input.
			require.NotContains(t, fitIn, message.Message(tool))
		}
	}
	require.LessOrEqual(t, sum(got), sum(in))
}

func parent(fit []message.Message, i int) string {
	for fit[i].Role() == message.RoleTool {
		i--
	}
	return fit[i].Head().ID.String()
}

// randomConversation is any order of messages at all.
func randomConversation(next func(n int) int, length int) string {
	var text []string
	for i := range length {
		word := fmt.Sprintf("u%d", i)
		switch next(8) {
		case 0:
			word = fmt.Sprintf("s%d", i)
		case 1:
			word = fmt.Sprintf("r%d", i)
		case 2:
			word = fmt.Sprintf("a%d", i)
		case 3, 4:
			word = fmt.Sprintf("a%d", i)
			first := next(5)
			for j := range 1 + next(2) {
				word += fmt.Sprintf(":%d", first+j)
			}
		case 5, 6:
			word = fmt.Sprintf("t:%d", next(6))
		}
		text = append(text, fmt.Sprintf("%s*%d", word, next(6)))
	}
	return strings.Join(text, " ")
}

func TestTailWindowKeepsAnyConversationWellFormed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 0))
		text := randomConversation(r.IntN, r.IntN(20))
		in, count := conversation(text)
		budget := r.IntN(50)
		if !t.Run("", func(t *testing.T) { checkWindow(t, in, budget, count) }) {
			t.Fatalf("seed %d, budget %d: %s", seed, budget, text)
		}
	}
}

func FuzzTailWindow(f *testing.F) {
	f.Add([]byte{7, 0, 2, 3, 3, 1, 0, 4, 5, 1, 2, 7, 1}, 3)
	f.Add([]byte{7, 1, 1, 1, 3, 0, 1, 2, 5, 0, 1, 5, 1, 1, 7, 1}, 2)
	f.Fuzz(func(t *testing.T, data []byte, budget int) {
		data = data[:min(len(data), 200)]
		next := func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b) % n
		}
		var words []string
		for len(data) > 0 && len(words) < 40 {
			words = append(words, randomConversation(next, 1))
		}
		in, count := conversation(strings.Join(words, " "))
		checkWindow(t, in, budget, count)
	})
}

func BenchmarkTailWindow(b *testing.B) {
	for _, turns := range []int{100, 1000, 10000} {
		var text []string
		for i := range turns {
			text = append(text, fmt.Sprintf("u%d r%d a%d:x%d:y%d t:x%d t:y%d a%d", i, i, i, i, i, i, i, i))
		}
		in, count := conversation(strings.Join(text, " "))
		b.Run(fmt.Sprint(len(in)), func(b *testing.B) {
			for b.Loop() {
				if _, err := (TailWindow{}).Compact(b.Context(), in, len(in)/10, count); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
