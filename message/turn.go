package message

// Turn is one turn of a conversation as most providers see it: a [UserTurn] or an [AssistantTurn].
type Turn interface{ sealedTurn() }

// UserTurn is what the model hears: a user message, or the results of its calls.
type UserTurn struct{ Parts []Part }

// AssistantTurn is what the model said: first its reasoning, then its text, then its calls.
type AssistantTurn struct {
	Reasoning []*Reasoning
	Text      string
	ToolCalls []ToolCall
}

// Part is one piece of a [UserTurn]: a [Text], [Media] or [ToolResult] value.
type Part interface{ sealedPart() }

// ToolResult is the result of one call.
type ToolResult struct {
	CallID  string
	Name    string // of the tool
	Content string // for a failed call "Error: " and what went wrong
	Failed  bool
}

func (UserTurn) sealedTurn()      {}
func (AssistantTurn) sealedTurn() {}

func (Text) sealedPart()       {}
func (Media) sealedPart()      {}
func (ToolResult) sealedPart() {}

// Turns returns the messages as turns. Reasoning joins the assistant message that directly follows it, and tool
// messages that follow each other are one user turn. Everything else is a turn of its own: user messages are
// not merged with each other or with results, so an adapter whose provider wants strict alternation has to do
// that itself.
//
// Assistant turns with neither text nor calls are left out, and so is reasoning that no assistant message
// follows: providers refuse a turn with nothing to say.
func (r *Request) Turns() []Turn {
	var (
		turns     []Turn
		reasoning []*Reasoning
		results   []Part
		calls     []ToolCall // of the last assistant message, for the names of the tools
	)
	flush := func() {
		if results != nil {
			turns = append(turns, UserTurn{Parts: results})
			results = nil
		}
	}
	for _, m := range r.Messages {
		if t, ok := m.(*Tool); ok {
			results = append(results, result(t, calls))
			reasoning = nil
			continue
		}
		flush()
		switch m := m.(type) {
		case *Reasoning:
			reasoning = append(reasoning, m)
			continue
		case *Assistant:
			if m.Content != "" || len(m.ToolCalls) > 0 {
				turns = append(turns, AssistantTurn{Reasoning: reasoning, Text: m.Content, ToolCalls: m.ToolCalls})
			}
			calls = m.ToolCalls
		case *User:
			parts := make([]Part, len(m.Content))
			for i, b := range m.Content {
				parts[i] = b
			}
			turns = append(turns, UserTurn{Parts: parts})
		}
		reasoning = nil
	}
	flush()
	return turns
}

func result(m *Tool, calls []ToolCall) ToolResult {
	r := ToolResult{CallID: m.ToolCallID, Name: m.Name, Content: m.Text(), Failed: m.Error != ""}
	for i := 0; r.Name == "" && i < len(calls); i++ {
		if calls[i].ID == m.ToolCallID {
			r.Name = calls[i].Name
		}
	}
	return r
}
