package gemini

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/everstep-go/everstep/message"
)

// Gemini signs parts of its replies, and wants each signature back on the part that it came with.
// That of a thought is the signature of the reasoning block. Texts and calls have no place for
// one, so theirs are reasoning blocks of their own, without text, whose signature begins with the
// part that it belongs to: "call:0:" and the signature of the first call, "text:7-12:" and that
// of the part that holds these bytes of the text. In base64 there is no colon.

func signedCall(index int, signature string) message.ReasoningDone {
	return message.ReasoningDone{Signature: fmt.Sprintf("call:%d:%s", index, signature)}
}

func signedText(start, end int, signature string) message.ReasoningDone {
	return message.ReasoningDone{Signature: fmt.Sprintf("text:%d-%d:%s", start, end, signature)}
}

// signatures are those of the texts and calls of one turn.
type signatures struct {
	calls map[int]string
	texts []textSignature
}

type textSignature struct {
	start, end int
	signature  string
}

// add takes a reasoning block that is about another part, and reports whether it is one.
func (s *signatures) add(r *message.Reasoning) bool {
	kind, rest, _ := strings.Cut(r.Signature, ":")
	place, signature, ok := strings.Cut(rest, ":")
	if r.Content != "" || !ok {
		return false
	}
	switch kind {
	case "call":
		index, err := strconv.Atoi(place)
		if err != nil {
			return false
		}
		if s.calls == nil {
			s.calls = map[int]string{}
		}
		s.calls[index] = signature
		return true
	case "text":
		from, to, _ := strings.Cut(place, "-")
		start, err := strconv.Atoi(from)
		if err != nil {
			return false
		}
		end, err := strconv.Atoi(to)
		if err != nil {
			return false
		}
		s.texts = append(s.texts, textSignature{start, end, signature})
		return true
	}
	return false
}

// split returns a text as the parts that were signed, and what was between them. Signatures whose
// part the text does not have (any more) are left out.
func (s *signatures) split(text string) []part {
	var parts []part
	done := 0
	for _, t := range s.texts {
		if t.start < done || t.end < t.start || t.end > len(text) {
			continue
		}
		if t.start > done {
			parts = append(parts, textPart(text[done:t.start]))
		}
		p := textPart(text[t.start:t.end])
		p.ThoughtSignature = t.signature
		parts = append(parts, p)
		done = t.end
	}
	if done < len(text) {
		parts = append(parts, textPart(text[done:]))
	}
	return parts
}

func textPart(text string) part { return part{Text: &text} }
