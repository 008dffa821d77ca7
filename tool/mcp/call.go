package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/state"
)

// A call is one request of tools/call.
type call struct {
	tool   context.Context // that of the react tool
	ctx    context.Context // ends with the request
	cancel context.CancelCauseFunc

	mu     sync.Mutex // guards what follows, and that nothing of the tool happens after it
	ended  bool
	asked  []error        // of graph.Interrupt
	number map[string]int // of questions that were asked, by what they say
}

type callKey struct{}

func newCall(ctx context.Context) *call {
	c := &call{tool: ctx, number: map[string]int{}}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// end ends the call, and returns the error that asks what the server asked, if nobody has answered it yet.
func (c *call) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	return errors.Join(c.asked...)
}

func (c *call) progress(p *sdk.ProgressNotificationParams) {
	patch := state.Patch{replace("/progress", p.Progress)}
	if p.Total != 0 {
		patch = append(patch, replace("/total", p.Total))
	}
	if p.Message != "" {
		patch = append(patch, replace("/message", p.Message))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		react.EmitActivity(c.tool, "mcp_progress", patch)
	}
}

func replace(path string, value any) state.Operation {
	data, _ := json.Marshal(value) // of a number that came as JSON, or of a text
	return state.Replace(path, data)
}

// ask returns the answer to a question of the server. Without one the call is given up: the answer may come in
// days, and the connection will not last that long.
func (c *call) ask(p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, errors.New("the call has ended")
	}
	answer, err := graph.Interrupt[sdk.ElicitResult](c.tool, c.questionID(p), question{p.Mode, p.Message, p.RequestedSchema, p.URL})
	if err != nil {
		c.asked = append(c.asked, err)
		c.cancel(err)
		return nil, errors.New("nobody has answered yet: the call is made again when somebody has")
	}
	switch answer.Action {
	case "accept", "decline", "cancel":
		return &answer, nil
	}
	err = fmt.Errorf(`the answer to %q has the action %q, not accept, decline or cancel`, p.Message, answer.Action)
	c.cancel(err)
	return nil, err
}

// question is what an interrupt asks: the request of the server.
type question struct {
	Mode            string `json:"mode"`
	Message         string `json:"message"`
	RequestedSchema any    `json:"requestedSchema,omitempty"`
	URL             string `json:"url,omitempty"`
}

// questionID names a question by what it says, so that an answer is never given to another one when the call is
// made again. The address of a page is different each time.
func (c *call) questionID(p *sdk.ElicitParams) string {
	text, _ := json.Marshal(question{p.Mode, p.Message, p.RequestedSchema, ""}) // it came as JSON
	hash := sha256.Sum256(text)
	id := hex.EncodeToString(hash[:8])
	c.number[id]++
	if n := c.number[id]; n > 1 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return id
}
