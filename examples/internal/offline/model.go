package offline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/message"
)

// signature is the one of every block of reasoning.
const signature = "offline"

// A Model is the offline model. It is safe for concurrent use.
type Model struct {
	mu       sync.Mutex       // guards attempts
	attempts map[question]int // at replies that a /flaky line makes fail
}

// question is what a reply answers.
type question struct {
	session, user uuid.UUID
	round         int
}

// New returns a model that has seen nothing yet.
func New() *Model { return &Model{attempts: make(map[question]int)} }

// Generate streams the reply that the conversation asks for.
func (m *Model) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		s := &stream{ctx: ctx, yield: yield}
		if err := m.answer(s, req); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

func (m *Model) answer(s *stream, req *message.Request) error {
	if err := req.Validate(); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	c := read(req.Messages)
	reply := c.reply()
	if req.Output != nil {
		value, err := smallest(req.Output)
		if err != nil {
			return err
		}
		reply = []command{{"/say", string(value)}}
	}
	if err := m.open(c.question(), reply); err != nil {
		return err
	}
	for _, cmd := range reply {
		if err := s.do(c, cmd); err != nil {
			return err
		}
	}
	return s.done(wordsIn(req))
}

// open fails as often as the reply says.
func (m *Model) open(q question, reply []command) error {
	fails := 0
	for _, cmd := range reply {
		if cmd.name == "/flaky" {
			n, err := cmd.number("how many attempts fail")
			if err != nil {
				return err
			}
			fails = max(fails, n)
		}
	}
	if fails == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempts[q]++
	if n := m.attempts[q]; n <= fails {
		return message.Transient(fmt.Errorf("offline: attempt %d of this reply fails, as /flaky %d wants", n, fails), 0)
	}
	return nil
}

// stream is a reply as it is streamed.
type stream struct {
	ctx   context.Context
	yield func(message.Delta, error) bool

	pause    time.Duration
	said     bool
	calls    int
	text     int64 // words that were said
	thoughts int64 // words that were thought
}

// errStopped: nobody listens any more.
var errStopped = errors.New("offline: stopped")

func (s *stream) do(c *conversation, cmd command) error {
	switch cmd.name {
	case "/think":
		for _, word := range words(cmd.text) {
			s.thoughts++
			if err := s.send(message.ReasoningDelta{Text: word}); err != nil {
				return err
			}
		}
		return s.emit(message.ReasoningDone{Signature: signature})
	case "/say":
		text := cmd.text
		if s.said {
			text = "\n" + text
		}
		s.said = true
		s.text += count(cmd.text)
		for _, word := range words(text) {
			if err := s.send(message.TextDelta{Text: word}); err != nil {
				return err
			}
		}
	case "/call", "/loop":
		name, arguments, _ := strings.Cut(strings.TrimLeft(cmd.text, " "), " ")
		if name == "" {
			return fmt.Errorf("offline: %s %q: name a tool, as in %s NAME JSON", cmd.name, cmd.text, cmd.name)
		}
		s.calls++
		s.text += count(cmd.text)
		return s.send(message.ToolCallDelta{Index: s.calls - 1, ID: c.callID(s.calls), Name: name, Arguments: arguments})
	case "/slow":
		ms, err := cmd.number("the milliseconds of a pause")
		s.pause = time.Duration(ms) * time.Millisecond
		return err
	case "/error":
		return errors.New(cmd.text)
	}
	return nil
}

// send streams a word or a call, after the pause.
func (s *stream) send(d message.Delta) error {
	if s.pause > 0 {
		timer := time.NewTimer(s.pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.ctx.Done():
		}
	}
	return s.emit(d)
}

func (s *stream) emit(d message.Delta) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if !s.yield(d, nil) {
		return errStopped
	}
	return nil
}

// done ends the reply.
func (s *stream) done(in int64) error {
	reason := message.FinishStop
	if s.calls > 0 {
		reason = message.FinishToolCalls
	}
	return s.emit(message.Done{
		Usage:        message.Usage{InputTokens: in, OutputTokens: s.text + s.thoughts, ReasoningTokens: s.thoughts},
		FinishReason: reason,
	})
}

// conversation is what a reply is made from.
type conversation struct {
	user    *message.User // the newest; nil if there is none
	last    message.Message
	rounds  int                // of tool results since then
	calls   []message.ToolCall // of the last round
	results []*message.Tool    // of the last round, in the order of the calls
}

// read expects well-formed messages: each call is followed by its result.
func read(messages []message.Message) *conversation {
	c := &conversation{last: messages[len(messages)-1]}
	for _, m := range messages {
		switch m := m.(type) {
		case *message.User:
			*c = conversation{last: c.last, user: m}
		case *message.Assistant:
			c.calls, c.results = m.ToolCalls, nil
			if len(m.ToolCalls) > 0 {
				c.rounds++
			}
		case *message.Tool:
			c.results = append(c.results, m)
		}
	}
	return c
}

func (c *conversation) question() question {
	q := question{session: c.last.Head().SessionID, round: c.rounds}
	if c.user != nil {
		q.user = c.user.ID
	}
	return q
}

// callID returns the id of the n-th call of the reply. The id of the last message tells apart branches that
// have the user message in common.
func (c *conversation) callID(n int) string {
	q := c.question()
	sum := sha256.Sum256([]byte(fmt.Sprint(q.session, q.user, q.round, c.last.Head().ID, n)))
	return "call_" + hex.EncodeToString(sum[:8])
}

// listing says what became of the calls of the last round.
func (c *conversation) listing() string {
	lines := make([]string, len(c.results))
	for i, r := range c.results {
		lines[i] = c.calls[i].Name + ": "
		switch {
		case r.Error != "":
			lines[i] += "error: " + r.Error
		case r.Content != nil:
			lines[i] += *r.Content
		}
	}
	return strings.Join(lines, "\n")
}

// words splits a text into words, each with the space before it.
func words(text string) []string {
	var out []string
	for len(text) > 0 {
		start := len(text) - len(strings.TrimLeft(text, space))
		end := len(text)
		if n := strings.IndexAny(text[start:], space); n >= 0 {
			end = start + n
		}
		out = append(out, text[:end])
		text = text[end:]
	}
	return out
}

const space = " \t\n"

func count(text string) int64 { return int64(len(strings.Fields(text))) }

// wordsIn counts the words of a request.
func wordsIn(req *message.Request) int64 {
	n := count(req.System)
	for _, m := range req.Messages {
		switch m := m.(type) {
		case *message.User:
			n += count(said(m))
		case *message.Reasoning:
			n += count(m.Content)
		case *message.Assistant:
			n += count(m.Content)
			for _, call := range m.ToolCalls {
				n += count(call.Name) + count(string(call.Arguments))
			}
		case *message.Tool:
			n += count(m.Text())
		}
	}
	return n
}

// number reads the text of a command that must be a number.
func (c command) number(what string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(c.text))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("offline: %s %q: %s must be a whole number that is not negative", c.name, c.text, what)
	}
	return n, nil
}
