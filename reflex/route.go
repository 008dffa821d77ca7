package reflex

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/everstep-go/everstep/graph"
)

// Run decides who runs the turn: who owns the chat, else the channel's default agent. Only a flat
// thread is owned from then on; a group's main surface never is.
func (n *router) Run(ctx context.Context, s State) (State, graph.Next[router], error) {
	var none graph.Next[router]
	if _, err := n.e.enter(ctx, &s); err != nil {
		return s, none, err
	}
	s, err := n.route(ctx, s)
	if err != nil {
		return s, none, coded(err)
	}
	return s, n.React.Next(), nil
}

func (n *router) route(ctx context.Context, s State) (State, error) {
	address := s.Source.Address
	c, err := n.e.channel(address.Channel)
	if err != nil {
		return s, err
	}
	t, err := n.e.books.Threads.Thread(ctx, s.Thread)
	if err != nil {
		return s, err
	}
	agent, model, err := n.e.owner(ctx, t)
	if err != nil {
		return s, err
	}
	s.RunName, s.Target = "react", Place{Address: address, Mode: modeOf(t)}
	switch {
	case agent != "":
	case len(c.Agents()) == 0:
		return s, fmt.Errorf("%w: %s has none", ErrUnknownAgent, c.ID())
	default:
		agent = c.Agents()[0]
		if t.Address.Thread != "" && c.Strategy() == FlatThreads {
			s.Pending = &Origin{}
		}
	}
	a, model, err := n.e.resolve(c.ID(), agent, model)
	if err != nil {
		return s, err
	}
	s.Decision = &Decision{Agent: a.ID(), Model: model}
	return n.e.loadPrompt(ctx, s, t)
}

// loadPrompt makes the prompt of what was said on the surface since the last one, up to the
// trigger: also what came while another turn ran. Without a trigger the signal's own text stays.
func (e *Engine) loadPrompt(ctx context.Context, s State, t Thread) (State, error) {
	if s.Trigger.IsZero() {
		return s, nil
	}
	rows, more, err := e.pendingRows(ctx, s.Trigger, s.Decision.Agent)
	if err != nil || len(rows) == 0 {
		return s, err
	}
	s.Prompt, s.Rows = nil, nil
	if t.Parent != "" && !more {
		if s.Prompt, err = e.recap(ctx, t, rows[0].ID.Seq); err != nil {
			return s, err
		}
	}
	if more {
		s.Prompt = append(s.Prompt, Segment{Text: fmt.Sprintf("(These are the last %d messages. More were said before.)", len(rows))})
	}
	for _, r := range rows {
		s.Prompt = append(s.Prompt, shown(r)...)
		s.Rows = append(s.Rows, r.ID.Seq)
	}
	return s, nil
}

// pendingRows returns the rows that are pending for an agent up to a trigger: the last ones, if there
// are more than a prompt has.
func (e *Engine) pendingRows(ctx context.Context, trigger RowID, agent string) (rows []Row, more bool, err error) {
	cursor, err := e.books.Ledger.Cursor(ctx, trigger.Surface)
	if err != nil {
		return nil, false, err
	}
	for before := trigger.Seq + 1; before > cursor+1; {
		page, err := e.books.Ledger.Rows(ctx, RowQuery{Surface: trigger.Surface, After: before, Descending: true, Limit: 100})
		if err != nil {
			return nil, false, err
		}
		for _, r := range page {
			if before = r.ID.Seq; before <= cursor || !pending(r, agent) {
				continue
			}
			if more = len(rows) >= e.config.MaxPending; more {
				break
			}
			rows = append(rows, r)
		}
		if len(page) == 0 || more {
			break
		}
	}
	slices.Reverse(rows)
	return rows, more, nil
}

// pending reports whether a row behind the cursor is something that an agent is yet to be told: what
// people said, and what other agents did.
func pending(r Row, agent string) bool {
	return (r.Kind == InboundRow || r.Kind == OutboundRow) && r.Agent != agent && !blank(r.Segments)
}

// shown is a row as an agent reads it: who said it, under which handle, and then all of it.
func shown(r Row) []Segment {
	name := r.Author.Name
	if r.Agent != "" {
		name = r.Agent
	}
	if name == "" {
		name = "anonymous"
	}
	head := name
	var notes []string
	for _, note := range []struct{ label, value string }{
		{"id", r.Author.ID}, {"user", r.Author.User}, {"message", r.Handle},
	} {
		if note.value != "" {
			notes = append(notes, note.label+" "+note.value)
		}
	}
	if len(notes) > 0 {
		head += " (" + strings.Join(notes, ", ") + ")"
	}
	return append([]Segment{{Text: head + ":"}}, r.Segments...)
}

// The defaults of a recap, for channels that do not say.
const (
	recapMessages = 10
	recapLength   = 400
)

// recap is what was said in the room before the prompt begins. A turn in a room has a conversation
// of its own, which knows nothing of it.
func (e *Engine) recap(ctx context.Context, t Thread, before int64) ([]Segment, error) {
	messages, length := recapMessages, recapLength
	if c, ok := e.channels[t.Address.Channel].(Recapper); ok {
		messages, length = c.Recap()
	}
	if messages <= 0 {
		return nil, nil
	}
	var lines []string
	for at := before; len(lines) < messages; {
		page, err := e.books.Ledger.Rows(ctx, RowQuery{Surface: t.Surface(), After: at, Descending: true, Limit: messages})
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if at = r.ID.Seq; r.Kind == ReceiptRow || blank(r.Segments) || len(lines) >= messages {
				continue
			}
			lines = append(lines, cut(textOf(shown(r)), length))
		}
		if len(page) < messages {
			break
		}
	}
	if len(lines) == 0 {
		return nil, nil
	}
	text := "<recap>\nEarlier in this room, for context. It has been answered.\n"
	for i := range lines {
		text += "> " + strings.ReplaceAll(lines[len(lines)-1-i], "\n", "\n> ") + "\n"
	}
	return Text(text + "</recap>"), nil
}

// cut shortens a text to a number of bytes.
func cut(text string, length int) string {
	if length <= 0 || len(text) <= length {
		return text
	}
	for length > 0 && !utf8.RuneStart(text[length]) {
		length--
	}
	return text[:length] + "…"
}
