package react

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
)

func promptVars() PromptVars {
	return PromptVars{
		AgentName:       "demo",
		ContextVars:     []ContextVar{{"user", "Ann <ann@x.org>"}, {"place", "Oslo"}},
		CurrentDatetime: "2026-01-02T03:04:05Z",
		TenantID:        "tenant", SessionID: "session", RunID: "run",
		Tools:    []message.ToolSpec{{Name: "add"}, {Name: "echo"}},
		Messages: []message.Message{message.NewUser("hi")},
		State:    json.RawMessage(`{"city":"Oslo","n":9007199254740993,"f":1.50,"on":false,"deep":{"x":[1,"b"]}}`),
	}
}

func TestATextPromptRendersEveryVariable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"You are {{.AgentName}}.{{range .ContextVars}}\n{{.Description}}: {{.Value}}{{end}}": "You are demo.\nuser: Ann <ann@x.org>\nplace: Oslo",
		"{{.CurrentDatetime}} {{.TenantID}} {{.SessionID}} {{.RunID}}":                       "2026-01-02T03:04:05Z tenant session run",
		"{{range .Skills}}{{.Name}}: {{.Description}}{{else}}no skills{{end}}":               "no skills",
		"{{range .Tools}}{{.Name}} {{end}}":                                                  "add echo ",
		"{{(index .Messages 0).Role}} {{len .Messages}}":                                     "user 1",
		"{{.State.city}} {{.State.n}} {{.State.f}} {{index .State.deep.x 1}}":                "Oslo 9007199254740993 1.5 b",
		"{{if .State.on}}on{{else}}off{{end}}{{if gt .State.n 3}} many{{end}}":               "off many",
		`{{with index .State "none"}}{{.}}{{else}}none{{end}}`:                               "none",
		"": "",
	} {
		got, err := TextPrompt(text).Render(t.Context(), promptVars())
		require.NoError(t, err, text)
		assert.Equal(t, want, got)
	}
	got, err := TextPrompt("{{range .ContextVars}}x{{end}}{{range .Skills}}x{{end}}{{len .State}}").Render(t.Context(), PromptVars{})
	require.NoError(t, err)
	assert.Equal(t, "0", got)
}

func TestATextPromptFailsOnWhatIsMissing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{{.State.nothing}}":      `map has no entry for key "nothing"`,
		"{{.State.deep.nothing}}": `map has no entry for key "nothing"`,
		"{{.Nothing}}":            "can't evaluate field Nothing",
	} {
		p := TextPrompt(text)
		require.NoError(t, p.(*textPrompt).check())
		_, err := p.Render(t.Context(), promptVars())
		assert.ErrorContains(t, err, "react: prompt: ", text)
		assert.ErrorContains(t, err, want, text)
	}
	_, err := TextPrompt("{{.State}}").Render(t.Context(), PromptVars{State: json.RawMessage(`{`)})
	assert.ErrorContains(t, err, "react: prompt: state: ")
}

func TestATextPromptThatCannotBeParsedIsReportedTwice(t *testing.T) {
	t.Parallel()
	p := TextPrompt("{{.AgentName")
	err := p.(*textPrompt).check()
	require.ErrorContains(t, err, "react: prompt: template: prompt:1: unclosed action")
	_, again := p.Render(t.Context(), promptVars())
	assert.Equal(t, err, again)
}

func TestAPromptFuncIsAPrompt(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	var p Prompt = PromptFunc(func(_ context.Context, v PromptVars) (string, error) { return string(v.State), boom })
	got, err := p.Render(t.Context(), promptVars())
	assert.Equal(t, boom, err)
	assert.Equal(t, string(promptVars().State), got, "as it is stored")
}
