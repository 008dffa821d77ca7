package react

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"github.com/everstep-go/everstep/message"
)

// Prompt makes the system prompt. It is rendered anew before every call of the model and is never stored; an
// error fails the run. See [TextPrompt] and [PromptFunc].
type Prompt interface {
	Render(ctx context.Context, v PromptVars) (string, error)
}

// PromptFunc is a func as a [Prompt].
type PromptFunc func(ctx context.Context, v PromptVars) (string, error)

// Render calls f.
func (f PromptFunc) Render(ctx context.Context, v PromptVars) (string, error) { return f(ctx, v) }

// PromptVars is what a prompt can be made of. What it refers to is shared and must not be changed.
type PromptVars struct {
	AgentName       string
	Skills          []Skill // never nil
	ContextVars     []ContextVar
	CurrentDatetime string // RFC 3339, UTC

	TenantID  string
	SessionID string
	RunID     string

	Tools    []message.ToolSpec // those that are offered to the model in this call
	Messages []message.Message  // the conversation
	State    json.RawMessage    // the context: an object
}

// Skill is something the agent knows how to do, described for the model.
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// ContextVar is something a client wants the model to know.
type ContextVar struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// TextPrompt returns a prompt written as a [text/template] with the fields of [PromptVars]:
//
//	You are {{.AgentName}}.
//	{{- range .ContextVars}}
//	{{.Description}}: {{.Value}}
//	{{- end}}
//
// The members of the context are at .State, as in {{.State.last_city}}; its numbers are int64, uint64 or float64
// values. One that does not exist is an error; {{with index .State "last_city"}} asks for it without one. A
// template that cannot be parsed is reported by [New], and again by Render.
func TextPrompt(text string) Prompt {
	t, err := template.New("prompt").Option("missingkey=error").Parse(text)
	return &textPrompt{template: t, err: err}
}

type textPrompt struct {
	template *template.Template
	err      error // of parsing it
}

// textVars are the variables as a template sees them: State hides the one of the embedded struct.
type textVars struct {
	PromptVars
	State any
}

func (p *textPrompt) Render(_ context.Context, v PromptVars) (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	vars := textVars{PromptVars: v, State: map[string]any{}}
	if vars.Skills == nil {
		vars.Skills = []Skill{}
	}
	if len(v.State) > 0 {
		var err error
		if vars.State, err = decodePlain(v.State); err != nil {
			return "", fmt.Errorf("react: prompt: state: %w", err)
		}
	}
	var text strings.Builder
	if err := p.template.Execute(&text, vars); err != nil {
		return "", fmt.Errorf("react: prompt: %w", err)
	}
	return text.String(), nil
}

func (p *textPrompt) check() error {
	if p.err != nil {
		return fmt.Errorf("react: prompt: %w", p.err)
	}
	return nil
}
