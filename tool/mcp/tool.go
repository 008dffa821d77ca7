package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
)

// metaKey is where a server finds the idempotency key of a call, in its _meta.
const metaKey = "everstep/idempotencyKey"

// A tool is one of the server, for agents.
type tool struct {
	client *Client
	name   string // on the server
	spec   react.ToolSpec
}

// toolsOf makes tools of what the server lists, and says which ones cannot be had.
func (c *Client) toolsOf(listed []*sdk.Tool) (tools []react.Tool, refused error) {
	prefix, ok := c.config.Prefix.Get()
	if !ok {
		prefix = c.config.Name + "__"
	}
	originals := make([]string, len(listed))
	for i, t := range listed {
		originals[i] = t.Name
	}
	var errs []error
	for i, name := range names(prefix, originals) {
		t, err := c.newTool(name, listed[i])
		if slices.Contains(originals[:i], originals[i]) {
			err = errors.New("the server has another one of this name")
		}
		if err != nil {
			errs = append(errs, c.failed(fmt.Errorf("tool %q: %w", originals[i], err)))
			continue
		}
		tools = append(tools, t)
	}
	return tools, errors.Join(errs...)
}

func (c *Client) newTool(name string, listed *sdk.Tool) (*tool, error) {
	t := &tool{client: c, name: listed.Name}
	t.spec.ToolOptions = c.config.Options(listed)
	t.spec.Name = name
	t.spec.Description = cmp.Or(listed.Description, listed.Title)
	t.spec.Timeout = cmp.Or(t.spec.Timeout, c.config.CallTimeout)
	t.spec.Capabilities = slices.Concat(c.config.Capabilities, t.spec.Capabilities)
	var err error
	if t.spec.Parameters, err = json.Marshal(listed.InputSchema); err != nil {
		return nil, err
	}
	// Who judges tools is the agent.
	agent, err := react.New(react.Config{Name: "mcp", Model: react.ModelFunc(nil), Tools: []react.Tool{t}})
	if err != nil {
		return nil, err
	}
	return t, agent.Shutdown(context.Background())
}

func (t *tool) Spec() react.ToolSpec { return t.spec }

// Call implements [react.Tool].
func (t *tool) Call(ctx context.Context, rc react.ToolCall) (react.ToolResult, error) {
	res, err := t.do(ctx, rc)
	switch {
	case err == nil:
	case errors.Is(err, graph.ErrInterrupted), ctx.Err() != nil:
		return react.ToolResult{}, err
	default:
		return react.ToolResult{}, t.client.failed(err)
	}
	if res.IsError {
		return react.ToolResult{}, errors.New(textOf(res.Content))
	}
	output, err := outputOf(res)
	return react.ToolResult{Output: output}, err
}

// do makes the call, a second time if the connection was lost in the first.
func (t *tool) do(ctx context.Context, rc react.ToolCall) (*sdk.CallToolResult, error) {
	retry, alone := !t.spec.AtMostOnce, false
	for {
		l, err := t.client.connected(ctx)
		if err != nil {
			return nil, err
		}
		res, err := l.do(ctx, t.params(ctx, rc), alone)
		switch {
		case errors.Is(err, errAlone):
			alone = true
		case errors.Is(err, errUnsent):
		case errors.Is(err, errLost) && retry:
			retry = false
		case errors.Is(err, errLost) && t.spec.AtMostOnce:
			return nil, fmt.Errorf("whether the tool did its work is unknown: %w", err)
		default:
			return res, err
		}
	}
}

func (t *tool) params(ctx context.Context, rc react.ToolCall) *sdk.CallToolParams {
	p := &sdk.CallToolParams{Name: t.name, Meta: sdk.Meta{}}
	if len(rc.Arguments) > 0 {
		p.Arguments = rc.Arguments
	}
	if key := cmp.Or(rc.IdempotencyKey, graph.IdempotencyKey(ctx)); key != "" {
		p.Meta[metaKey] = key
	}
	return p
}
