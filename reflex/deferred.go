package reflex

import (
	"encoding/json"
	"fmt"
	"slices"
)

// CallKind says what a deferred call wants. It is what a call is told by, never its tool's name.
type CallKind string

const (
	ApprovalCall CallKind = "approval" // may the tool be called?
	QuestionCall CallKind = "question" // what do people say?
	MoveCall     CallKind = "teleport" // the agent wants to go on elsewhere
)

// DeferredCall is a tool call that a run could not settle itself.
type DeferredCall struct {
	ID          string           `json:"id"`
	Kind        CallKind         `json:"kind"`
	Tool        string           `json:"tool,omitempty"`
	Arguments   json.RawMessage  `json:"arguments,omitempty"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Questions   []QuestionText   `json:"questions,omitempty"` // of a QuestionCall
	Move        *RelocateRequest `json:"move,omitempty"`      // of a MoveCall
	// Metadata travels with the call and its result.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// QuestionText is one question with the answers that are proposed; free text is always allowed.
type QuestionText struct {
	Text    string   `json:"text"`
	Choices []string `json:"choices,omitempty"` // 3 at most
}

// maxChoices is how many answers a question may propose.
const maxChoices = 3

// DeferredResult settles a deferred call.
type DeferredResult struct {
	Kind     CallKind        `json:"kind"`
	Answers  []string        `json:"answers,omitempty"`  // of a QuestionCall, by position
	Approved bool            `json:"approved,omitempty"` // of an ApprovalCall
	Reason   string          `json:"reason,omitempty"`
	Text     string          `json:"text,omitempty"` // of a MoveCall: where the agent is now
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// DeferredResults are results by the ids of their calls.
type DeferredResults map[string]DeferredResult

// Prompt renders results for an agent that takes them as its next prompt.
func (r DeferredResults) Prompt(calls []DeferredCall) string {
	text := ""
	for _, c := range calls {
		result, ok := r[c.ID]
		if !ok {
			continue
		}
		switch c.Kind {
		case QuestionCall:
			for i, q := range c.Questions {
				answer := ""
				if i < len(result.Answers) {
					answer = result.Answers[i]
				}
				text += fmt.Sprintf("%s\n%s\n", q.Text, answer)
			}
		case MoveCall:
			text += result.Text + "\n"
		default:
			verdict := "denied"
			if result.Approved {
				verdict = "approved"
			}
			text += fmt.Sprintf("%s: %s\n", c.Tool, verdict)
			if result.Reason != "" {
				text += result.Reason + "\n"
			}
		}
	}
	return text
}

// checkCalls says what is wrong with calls that people are to answer.
func checkCalls(calls []DeferredCall) error {
	if len(calls) == 0 {
		return fmt.Errorf("%w: nothing is deferred", ErrInvariant)
	}
	for i, c := range calls {
		if slices.ContainsFunc(calls[:i], func(d DeferredCall) bool { return d.ID == c.ID }) {
			return fmt.Errorf("%w: two deferred calls have the id %q", ErrInvariant, c.ID)
		}
		switch c.Kind {
		case ApprovalCall:
		case QuestionCall:
			if len(c.Questions) == 0 {
				return fmt.Errorf("%w: call %q asks no question", ErrInvariant, c.ID)
			}
			for _, q := range c.Questions {
				if len(q.Choices) > maxChoices {
					return fmt.Errorf("%w: a question of call %q has more than %d choices", ErrInvariant, c.ID, maxChoices)
				}
			}
		default:
			return fmt.Errorf("%w: call %q has the kind %q, which nobody can answer", ErrInvariant, c.ID, c.Kind)
		}
	}
	return nil
}

// Posture settles what a permission mode settles without people. A kind that it has no opinion on
// is not among the results.
func Posture(mode PermissionMode, calls []DeferredCall) DeferredResults {
	results := DeferredResults{}
	if mode != DontAsk && mode != BypassPermissions {
		return results
	}
	for _, c := range calls {
		switch c.Kind {
		case ApprovalCall:
			r := DeferredResult{Kind: ApprovalCall, Approved: mode == BypassPermissions, Metadata: c.Metadata}
			if !r.Approved {
				r.Reason = "nobody is asked in this conversation: go on without it"
			}
			results[c.ID] = r
		case QuestionCall:
			r := DeferredResult{Kind: QuestionCall, Metadata: c.Metadata}
			for range c.Questions {
				r.Answers = append(r.Answers, "Nobody is there to answer: decide yourself.")
			}
			results[c.ID] = r
		}
	}
	return results
}

// covers reports whether there is a result for every call.
func (r DeferredResults) covers(calls []DeferredCall) bool {
	for _, c := range calls {
		if _, ok := r[c.ID]; !ok {
			return false
		}
	}
	return true
}
