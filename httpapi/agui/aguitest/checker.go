package aguitest

import (
	"fmt"
	"io"
)

// Dialect is the version of the protocol that a client speaks.
type Dialect string

const (
	// V1 is 1.0: the request has a protocolVersion.
	V1 Dialect = "1.0"
	// V0 is what was before, up to 0.0.59: the request has none.
	V0 Dialect = "0.0.59"
)

// Checker holds the events of one answer against the rules. Its zero value is not ready; use [NewChecker].
type Checker struct {
	shapes map[string]shape

	state      runState
	thread     string
	run        string
	n          int
	open       map[string]string // what is open, by kind and id: the subagent that opened it
	agents     map[string]bool   // subagents: whether they are active
	activities map[string]bool
	chunks     map[string]string // the kinds of chunks that are open: the id
}

type runState int

const (
	noRun runState = iota
	running
	finished
	failed
)

// NewChecker returns a checker of the answers to a client of that dialect.
func NewChecker(d Dialect) *Checker {
	return &Checker{
		shapes: shapes(d), open: map[string]string{}, agents: map[string]bool{}, activities: map[string]bool{}, chunks: map[string]string{},
	}
}

// Add takes the next event. It returns what a client would break off with, or would get wrong.
func (c *Checker) Add(e Event) error {
	c.n++
	if err := c.add(e); err != nil {
		return fmt.Errorf("aguitest: event %d, %s: %w", c.n, e.Type(), err)
	}
	return nil
}

// End returns [io.ErrUnexpectedEOF] if the run has not ended: a client takes that for success.
func (c *Checker) End() error {
	if c.state == noRun || c.state == running {
		return fmt.Errorf("aguitest: the body ends without RUN_FINISHED or RUN_ERROR: %w", io.ErrUnexpectedEOF)
	}
	return nil
}

func (c *Checker) add(e Event) error {
	s, ok := c.shapes[e.Type()]
	if !ok {
		return fmt.Errorf("no such type")
	}
	if err := common.check(e); err != nil {
		return err
	}
	if err := s.check(e); err != nil {
		return err
	}
	if err := c.follows(e); err != nil {
		return err
	}
	switch e.Type() {
	case "RUN_STARTED":
		c.state, c.thread, c.run = running, e.Text("threadId"), e.Text("runId")
		clear(c.open)
		clear(c.agents)
	case "RUN_FINISHED":
		if len(c.open) > 0 {
			return fmt.Errorf("open: %v", c.open)
		}
		for id, active := range c.agents {
			if active {
				return fmt.Errorf("subagent %q is active", id)
			}
		}
		if e.Text("threadId") != c.thread || e.Text("runId") != c.run {
			return fmt.Errorf("it is not the run that was started")
		}
		if o, ok := e["outcome"].(map[string]any); ok && o["type"] == "cancelled" && e.Has("result") {
			return fmt.Errorf("a cancelled run has a result")
		}
		c.state = finished
	case "RUN_ERROR":
		c.state = failed
	case "STEP_STARTED":
		return c.opens(e, "step", "stepName")
	case "STEP_FINISHED":
		return c.closes(e, "step", "stepName")
	case "TEXT_MESSAGE_START":
		if c.activities[e.Text("messageId")] {
			return fmt.Errorf("%q is an activity", e.Text("messageId"))
		}
		return c.opens(e, "text", "messageId")
	case "TEXT_MESSAGE_CONTENT":
		return c.continues(e, "text", "messageId")
	case "TEXT_MESSAGE_END":
		return c.closes(e, "text", "messageId")
	case "TOOL_CALL_START":
		return c.opens(e, "call", "toolCallId")
	case "TOOL_CALL_ARGS":
		return c.continues(e, "call", "toolCallId")
	case "TOOL_CALL_END":
		return c.closes(e, "call", "toolCallId")
	case "REASONING_START":
		return c.opens(e, "reasoning", "messageId")
	case "REASONING_END":
		return c.closes(e, "reasoning", "messageId")
	case "REASONING_MESSAGE_START":
		return c.opens(e, "reasoning message", "messageId")
	case "REASONING_MESSAGE_CONTENT":
		return c.continues(e, "reasoning message", "messageId")
	case "REASONING_MESSAGE_END":
		return c.closes(e, "reasoning message", "messageId")
	case "ACTIVITY_SNAPSHOT":
		c.activities[e.Text("messageId")] = true
	case "ACTIVITY_DELTA":
		if !c.activities[e.Text("messageId")] {
			return fmt.Errorf("there was no snapshot of %q", e.Text("messageId"))
		}
	case "TEXT_MESSAGE_CHUNK", "REASONING_MESSAGE_CHUNK":
		return c.chunk(e, "messageId")
	case "TOOL_CALL_CHUNK":
		return c.chunk(e, "toolCallId", "toolCallName")
	case "SUBAGENT_STARTED":
		id := e.Text("subagentRunId")
		if _, known := c.agents[id]; known {
			return fmt.Errorf("subagent %q was started before", id)
		}
		if parent := e.Text("parentSubagentRunId"); parent != "" && !c.agents[parent] {
			return fmt.Errorf("no active subagent %q", parent)
		}
		c.agents[id] = true
	case "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
		if id := e.Text("subagentRunId"); !c.agents[id] {
			return fmt.Errorf("no active subagent %q", id)
		}
		c.agents[e.Text("subagentRunId")] = false
	}
	return nil
}

// follows says whether an event may come now.
func (c *Checker) follows(e Event) error {
	switch kind := e.Type(); {
	case c.state == noRun && kind != "RUN_STARTED" && kind != "RUN_ERROR":
		return fmt.Errorf("the first event is RUN_STARTED or RUN_ERROR")
	case c.state == running && kind == "RUN_STARTED":
		return fmt.Errorf("a run is active")
	case c.state == finished && kind != "RUN_STARTED" && kind != "RUN_ERROR":
		return fmt.Errorf("the run has finished")
	case c.state == failed && kind != "RUN_STARTED":
		return fmt.Errorf("the run has failed")
	}
	return nil
}

func (c *Checker) opens(e Event, kind, name string) error {
	key := kind + " " + e.Text(name)
	if _, open := c.open[key]; open {
		return fmt.Errorf("%s is open already", key)
	}
	c.open[key] = e.Text("subagentRunId")
	return nil
}

func (c *Checker) continues(e Event, kind, name string) error {
	key := kind + " " + e.Text(name)
	owner, open := c.open[key]
	if !open {
		return fmt.Errorf("%s is not open", key)
	}
	if owner != e.Text("subagentRunId") {
		return fmt.Errorf("%s belongs to subagent %q", key, owner)
	}
	return nil
}

func (c *Checker) closes(e Event, kind, name string) error {
	if err := c.continues(e, kind, name); err != nil {
		return err
	}
	delete(c.open, kind+" "+e.Text(name))
	return nil
}

// chunk wants what the first chunk must have.
func (c *Checker) chunk(e Event, names ...string) error {
	id := e.Text(names[0])
	if c.chunks[e.Type()] != "" && (id == "" || id == c.chunks[e.Type()]) {
		return nil
	}
	for _, name := range names {
		if e.Text(name) == "" {
			return fmt.Errorf("a first chunk has no %s", name)
		}
	}
	c.chunks[e.Type()] = id
	return nil
}
