package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/everstep-go/everstep/reflex"
)

// terminal is a chat platform that prints what happens on it. What it opened it remembers by the key of the
// request, which the file of a real platform would.
type terminal struct {
	id     string
	agents []string

	mu     sync.Mutex // guards what follows
	out    io.Writer
	lines  int
	opened map[string]string
	closed bool               // it opens nothing
	broken bool               // it draws nothing
	onCard func(batch string) // called while a card is drawn
}

func newTerminal(id string, out io.Writer, agents ...string) *terminal {
	return &terminal{id: id, agents: agents, out: out, opened: map[string]string{}}
}

func (c *terminal) ID() string                { return c.id }
func (c *terminal) Agents() []string          { return c.agents }
func (c *terminal) Strategy() reflex.Strategy { return reflex.FlatThreads }

func (c *terminal) OpenThread(_ context.Context, r reflex.OpenRequest) (reflex.Address, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return reflex.Address{}, errors.New("the desk is closed")
	}
	id, ok := c.opened[r.Key]
	if !ok {
		id = strings.NewReplacer("/", "-").Replace(r.Key)
		c.opened[r.Key] = id
	}
	return reflex.Address{Channel: c.id, Type: reflex.Group, Chat: "work", User: r.Profile.ID, Thread: id, Shared: true}, nil
}

func (c *terminal) OpenDM(_ context.Context, r reflex.OpenRequest) (reflex.Address, error) {
	return private(c.id, r.Profile.ID), nil
}

// Draw prints an event. It returns the handle of the line, which the ledger then knows.
func (c *terminal) Draw(_ context.Context, e reflex.Event) (string, error) {
	c.mu.Lock()
	broken, onCard := c.broken, c.onCard
	c.mu.Unlock()
	if broken {
		return "", errors.New("the screen is dark")
	}
	switch d := e.Data.(type) {
	case reflex.ReplyGiven:
		return c.print(e, text(d.Output)), nil
	case reflex.MessageSent:
		return c.print(e, text(d.Segments)), nil
	case reflex.Moved:
		if d.Line == nil {
			return c.print(e, fmt.Sprintf("(%s takes over)", d.Agent)), nil
		}
		return c.print(e, text(d.Line)), nil
	case reflex.Opened:
		return c.print(e, text(d.Line)), nil
	case reflex.BatchAsked:
		for _, a := range d.Actions {
			c.print(e, fmt.Sprintf("? %s %s  (yes or no)", a.Tool, a.Arguments))
		}
		if onCard != nil {
			onCard(d.Batch)
		}
	case reflex.CommandFeedback:
		c.print(e, d.Outcome.Text)
	case reflex.RunFailed:
		c.print(e, "! "+d.Message)
	}
	return "", nil
}

func (c *terminal) print(e reflex.Event, line string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines++
	fmt.Fprintf(c.out, "[%s %s] %s\n", c.id, e.At.Address.Chat, line)
	return fmt.Sprintf("%s-%d", c.id, c.lines)
}

func (c *terminal) set(change func(*terminal)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func text(segments []reflex.Segment) string {
	var out []string
	for _, s := range segments {
		out = append(out, s.Text)
	}
	return strings.Join(out, " ")
}
