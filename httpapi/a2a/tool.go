package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// errand is what the agent is told.
type errand struct {
	Message   string         `json:"message,omitempty" jsonschema:"what to tell the agent, with everything that it needs to know"`
	Data      map[string]any `json:"data,omitempty" jsonschema:"data for the agent, or answers to its questions by their ids"`
	ContextID string         `json:"context_id,omitempty" jsonschema:"the conversation to go on with, as a result named it; a new one if left out"`
	TaskID    string         `json:"task_id,omitempty" jsonschema:"the task that asked for input, if this answers it"`
	NoWait    bool           `json:"no_wait,omitempty" jsonschema:"return at once with the task_id, instead of waiting for the result"`
}

// errandTask names a task.
type errandTask struct {
	TaskID string `json:"task_id" jsonschema:"the task, as a result named it"`
}

// report is what the model is told of a task.
type report struct {
	TaskID    string         `json:"task_id,omitempty"`
	ContextID string         `json:"context_id,omitempty"`
	State     string         `json:"state,omitempty"`
	Text      string         `json:"text,omitempty"`
	Data      []any          `json:"data,omitempty"`
	Files     []reportedFile `json:"files,omitempty"`
	Question  string         `json:"question,omitempty"`
}

// reportedFile is a file that the agent made: its content is nothing for a model.
type reportedFile struct {
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	URL       string `json:"url,omitempty"`
	Bytes     int    `json:"bytes,omitempty"`
}

// foreignQuestion is the payload of a question of another agent.
type foreignQuestion struct {
	Agent   string        `json:"agent"`
	State   sdk.TaskState `json:"state"`
	Message string        `json:"message"`
	Data    []any         `json:"data,omitempty"`
}

// maxDescription is how many bytes of what a card says of its agent a model is told.
const maxDescription = 2 << 10

func (c *Client) makeTools() []react.Tool {
	waits := &react.ToolOptions{Capabilities: c.config.Capabilities, Timeout: c.config.CallTimeout}
	quick := &react.ToolOptions{Capabilities: c.config.Capabilities}
	about := c.card.Name
	if c.card.Description != "" {
		about += ": " + c.card.Description
	}
	for _, s := range c.card.Skills {
		about += fmt.Sprintf("\n- %s: %s", s.Name, s.Description)
	}
	if len(about) > maxDescription {
		about = strings.ToValidUTF8(about[:maxDescription], "") + " …"
	}
	return []react.Tool{
		react.NewTool(c.toolName("send"), "Sends a message to an agent and waits for what comes of it. The agent is "+about, c.send, waits),
		react.NewTool(c.toolName("stream_task"), "Waits for a task of the agent "+c.config.Name+" that was sent without waiting.", c.streamTask, waits),
		react.NewTool(c.toolName("get_task"), "Looks at a task of the agent "+c.config.Name+".", c.getTask, quick),
		react.NewTool(c.toolName("cancel_task"), "Cancels a task of the agent "+c.config.Name+".", c.cancelTask, quick),
	}
}

func (c *Client) toolName(verb string) string { return "a2a_" + c.config.Name + "_" + verb }

// call is one call of a tool.
type call struct {
	client *Client
	ctx    context.Context // that of the tool
	caller graph.Info
	key    string // of the call; the same however often it is made
	tenant string
}

// newCall checks whether the run may call the agent, and name what it names.
func (c *Client) newCall(ctx context.Context, ids ...string) (*call, error) {
	k := &call{client: c, ctx: ctx, key: graph.IdempotencyKey(ctx)}
	k.caller, _ = graph.InfoFrom(ctx)
	if k.key == "" {
		k.key = sdk.NewMessageID() // outside of a run
	}
	if c.config.Allow != nil {
		if err := c.config.Allow(k.caller); err != nil {
			return nil, fmt.Errorf("agent %s may not be called: %w", c.config.Name, err)
		}
	}
	if c.config.Tenant != nil {
		k.tenant = c.config.Tenant(k.caller)
	}
	for _, id := range ids {
		if err := c.known(ctx, id); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// known refuses tasks and contexts that the conversation does not know from the agent. To the agent all
// sessions may be one client: a model must not be talked into looking at the tasks of another one.
func (c *Client) known(ctx context.Context, id string) error {
	state, ok := react.StateFrom(ctx)
	if id == "" || !ok {
		return nil
	}
	for _, m := range state.Messages {
		if r, ok := m.(*message.Tool); ok && strings.HasPrefix(r.Name, c.toolName("")) && strings.Contains(r.Text(), id) {
			return nil
		}
	}
	return &react.ArgumentError{Reason: fmt.Sprintf("no result of %s in this conversation names %q", c.toolName("send"), id)}
}

func (c *Client) send(ctx context.Context, in errand) (report, error) {
	k, err := c.newCall(ctx, in.TaskID, in.ContextID)
	if err != nil {
		return report{}, err
	}
	if in.Message == "" && len(in.Data) == 0 {
		return report{}, &react.ArgumentError{Reason: "either a message or data is needed"}
	}
	return k.send(in)
}

func (c *Client) streamTask(ctx context.Context, in errandTask) (report, error) {
	k, err := c.newCall(ctx, in.TaskID)
	if err != nil {
		return report{}, err
	}
	return k.follow(sdk.TaskID(in.TaskID))
}

func (c *Client) getTask(ctx context.Context, in errandTask) (report, error) {
	k, err := c.newCall(ctx, in.TaskID)
	if err != nil {
		return report{}, err
	}
	t, err := k.get(ctx, sdk.TaskID(in.TaskID))
	if err != nil {
		return report{}, c.failed(err)
	}
	return reportOf(t), nil
}

func (c *Client) cancelTask(ctx context.Context, in errandTask) (report, error) {
	k, err := c.newCall(ctx, in.TaskID)
	if err != nil {
		return report{}, err
	}
	t, err := c.remote.CancelTask(ctx, &sdk.CancelTaskRequest{Tenant: k.tenant, ID: sdk.TaskID(in.TaskID)})
	if err != nil {
		return report{}, c.failed(err)
	}
	return reportOf(t), nil
}

// reportOf sums a task up.
func reportOf(t *sdk.Task) report {
	r := report{TaskID: string(t.ID), ContextID: t.ContextID, State: stateName(t.Status.State)}
	for _, a := range t.Artifacts {
		if a != nil {
			r.add(a.Parts)
		}
	}
	if m := t.Status.Message; m != nil {
		if resting(t.Status.State) && !t.Status.State.Terminal() {
			r.Question = textOf(m.Parts)
			r.Data = append(r.Data, dataOf(m.Parts)...)
		} else {
			r.add(m.Parts)
		}
	}
	return r
}

// stateName is what a model is told of a state, such as input_required.
func stateName(s sdk.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_"))
}

func (r *report) add(parts sdk.ContentParts) {
	if text := textOf(parts); text != "" {
		if r.Text != "" {
			r.Text += "\n"
		}
		r.Text += text
	}
	r.Data = append(r.Data, dataOf(parts)...)
	for _, p := range parts {
		if p == nil {
			continue
		}
		switch c := p.Content.(type) {
		case sdk.URL:
			r.Files = append(r.Files, reportedFile{Name: p.Filename, MediaType: p.MediaType, URL: string(c)})
		case sdk.Raw:
			r.Files = append(r.Files, reportedFile{Name: p.Filename, MediaType: p.MediaType, Bytes: len(c)})
		}
	}
}

// textOf joins the texts of parts: they may be pieces of one.
func textOf(parts sdk.ContentParts) string {
	var b strings.Builder
	for _, p := range parts {
		if p != nil {
			b.WriteString(p.Text())
		}
	}
	return b.String()
}

func dataOf(parts sdk.ContentParts) (all []any) {
	for _, p := range parts {
		if p == nil {
			continue
		}
		if d, ok := p.Content.(sdk.Data); ok {
			all = append(all, d.Value)
		}
	}
	return all
}

// answerParts is what a reply says to the agent: a text as text, anything else as data.
func answerParts(reply json.RawMessage) ([]*sdk.Part, error) {
	if text, ok := plainText(reply); ok {
		return []*sdk.Part{sdk.NewTextPart(text)}, nil
	}
	var value any
	if err := json.Unmarshal(reply, &value); err != nil {
		return nil, err
	}
	return []*sdk.Part{sdk.NewDataPart(reply)}, nil
}
