package react

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/message"
)

// Summary is the [Compaction] that retells what [TailWindow] would forget: a model makes a text of
// it, which the conversation begins with instead. What is forgotten later is added to the text; a
// text that was made is kept in memory, for the last thousand places in conversations. If the model
// cannot make one, the run fails as it does when its own model cannot answer.
//
// Use a pointer to one Summary for all runs of an agent. Model is required.
type Summary struct {
	Model Model
	// Name is what Model is asked for. Default: whatever it is by default.
	Name string
	// Prompt says how to retell. Default: a short one, in English.
	Prompt string
	// Reserve is how many tokens of the budget the text may take. Default: a tenth.
	Reserve int

	mu    sync.Mutex // guards texts
	texts map[cut]string
}

// cut is where a text ends: behind a message, the so-and-so-many-th of those that are retold.
type cut struct {
	last  uuid.UUID
	count int
}

const keptTexts = 1000

const retell = `Retell this part of a conversation between a user and an assistant, for the assistant to go on from: ` +
	`what was asked, what was found out and decided, names, numbers and open questions. Be brief. Say nothing else.`

// Compact implements [Compaction].
func (s *Summary) Compact(ctx context.Context, messages []message.Message, budget int, count TokenCounter) ([]message.Message, error) {
	if s.Model == nil {
		return nil, errors.New("react: Summary.Model is nil")
	}
	if count == nil {
		count = CounterFunc(ApproximateTokens)
	}
	var tail TailWindow
	kept, err := tail.Compact(ctx, messages, budget, count)
	if err != nil || len(kept) == len(messages) {
		return kept, err
	}
	if kept, err = tail.Compact(ctx, messages, budget-cmp.Or(s.Reserve, budget/10), count); err != nil {
		return nil, err
	}
	text, err := s.retold(ctx, without(messages, kept), max(budget, 1), count)
	if err != nil {
		return nil, fmt.Errorf("summary: %w", err)
	}
	return append([]message.Message{message.NewUser("What we have said before:\n" + text)}, kept...), nil
}

// without returns the messages that are not among kept, which has the same order.
func without(messages, kept []message.Message) (rest []message.Message) {
	for _, m := range messages {
		if len(kept) > 0 && m == kept[0] {
			kept = kept[1:]
		} else {
			rest = append(rest, m)
		}
	}
	return rest
}

// retold returns the text of messages, made from the longest one that there is.
func (s *Summary) retold(ctx context.Context, messages []message.Message, budget int, count TokenCounter) (string, error) {
	text, n := s.known(messages)
	for n < len(messages) {
		end, tokens := n, 0
		for end < len(messages) && (end == n || tokens+count.Count(messages[end]) <= budget) {
			tokens += count.Count(messages[end])
			end++
		}
		var err error
		if text, err = s.ask(ctx, text, messages[n:end]); err != nil {
			return "", err
		}
		n = end
		s.keep(cut{messages[n-1].Head().ID, n}, text)
	}
	return text, nil
}

func (s *Summary) known(messages []message.Message) (text string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(messages); n > 0; n-- {
		if text, ok := s.texts[cut{messages[n-1].Head().ID, n}]; ok {
			return text, n
		}
	}
	return "", 0
}

func (s *Summary) keep(p cut, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil {
		s.texts = map[cut]string{}
	}
	for old := range s.texts {
		if len(s.texts) < keptTexts {
			break
		}
		delete(s.texts, old)
	}
	s.texts[p] = text
}

func (s *Summary) ask(ctx context.Context, before string, messages []message.Message) (string, error) {
	var b strings.Builder
	if before != "" {
		b.WriteString("before: " + before + "\n")
	}
	for _, m := range messages {
		switch m := m.(type) {
		case *message.User:
			b.WriteString("user: " + m.Text() + "\n")
		case *message.Assistant:
			if m.Content != "" {
				b.WriteString("assistant: " + m.Content + "\n")
			}
			for _, c := range m.ToolCalls {
				fmt.Fprintf(&b, "assistant calls %s %s\n", c.Name, c.Arguments)
			}
		case *message.Tool:
			fmt.Fprintf(&b, "%s: %s\n", cmp.Or(m.Name, "tool"), m.Text())
		}
	}
	reply, err := message.Collect(s.Model.Generate(ctx, &message.Request{
		Model: s.Name, System: cmp.Or(s.Prompt, retell), Messages: []message.Message{message.NewUser(b.String())},
	}))
	if err == nil && reply.Text == "" {
		err = errors.New("the model said nothing")
	}
	return reply.Text, err
}
