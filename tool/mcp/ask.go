package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
)

// multiRoundTrip is the first version of the protocol in which a server asks by a result.
const multiRoundTrip = "2026-07-28"

// An asker talks to the client during one of its requests.
type asker struct {
	ctx  context.Context
	req  *sdk.CallToolRequest
	told float64
}

// tell reports progress, if the client wants to hear of it.
func (a *asker) tell(message string) {
	token := a.req.Params.GetProgressToken()
	if token == nil {
		return
	}
	a.told++
	// A client that does not get this will not get the result either.
	_ = a.req.Session.NotifyProgress(a.ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: a.told, Message: message})
}

// ask returns what the client answers to questions, by their ids, or in newer versions of the protocol the result
// that asks. Neither means that it cannot be asked, or will not answer.
func (a *asker) ask(questions []graph.Question) (answers json.RawMessage, request *sdk.CallToolResult) {
	client := a.req.Session.InitializeParams()
	if client == nil || client.Capabilities == nil || client.Capabilities.Elicitation == nil {
		return nil, nil
	}
	if e := client.Capabilities.Elicitation; e.Form == nil && e.URL != nil {
		return nil, nil
	}
	if client.ProtocolVersion >= multiRoundTrip {
		requests := sdk.InputRequestMap{}
		for _, q := range questions {
			requests[q.ID] = formOf(q).request
		}
		return nil, &sdk.CallToolResult{InputRequests: requests}
	}
	responses := sdk.InputResponseMap{}
	for _, q := range questions {
		r, err := a.req.Session.Elicit(a.ctx, formOf(q).request)
		if err != nil {
			break // it gets the rest as a result
		}
		responses[q.ID] = r
	}
	return replies(questions, responses), nil
}

// replies makes answers of what a client answered, nil if it answered nothing.
func replies(questions []graph.Question, responses sdk.InputResponseMap) json.RawMessage {
	answers := map[string]any{}
	for _, q := range questions {
		if r, ok := responses[q.ID].(*sdk.ElicitResult); ok {
			if reply := formOf(q).reply(r); reply != nil {
				answers[q.ID] = reply
			}
		}
	}
	if len(answers) == 0 {
		return nil
	}
	data, _ := json.Marshal(answers) // they came as JSON
	return data
}

// A form is a question as clients are asked it, with what their answers mean. A reply of nil is none.
type form struct {
	request *sdk.ElicitParams
	reply   func(*sdk.ElicitResult) any
}

// formOf finds out what a question wants: what an MCP server asked, an agreement to a call, or something else.
func formOf(q graph.Question) form {
	var foreign struct {
		Message         string          `json:"message"`
		RequestedSchema json.RawMessage `json:"requestedSchema"`
	}
	if json.Unmarshal(q.Payload, &foreign) == nil && len(foreign.RequestedSchema) > 0 {
		return form{
			&sdk.ElicitParams{Message: foreign.Message, RequestedSchema: foreign.RequestedSchema},
			func(r *sdk.ElicitResult) any { return r },
		}
	}
	var approval react.ApprovalRequest
	d := json.NewDecoder(bytes.NewReader(q.Payload))
	d.DisallowUnknownFields()
	if d.Decode(&approval) == nil && approval.Tool != "" && len(approval.Arguments) > 0 {
		return form{
			&sdk.ElicitParams{
				Message: fmt.Sprintf("May the agent call %s with %s?", approval.Tool, approval.Arguments),
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{` +
					`"approved":{"type":"boolean","title":"Approved"},` +
					`"reason":{"type":"string","title":"Reason","description":"Why it is refused."}},"required":["approved"]}`),
			},
			func(r *sdk.ElicitResult) any {
				if r.Action == "accept" {
					return r.Content
				}
				return react.Approval{}
			},
		}
	}
	message := string(q.Payload)
	_ = json.Unmarshal(q.Payload, &message) // a text as it is
	return form{
		&sdk.ElicitParams{
			Message:         message,
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string","title":"Answer"}},"required":["answer"]}`),
		},
		func(r *sdk.ElicitResult) any {
			if r.Action == "accept" {
				return r.Content["answer"]
			}
			return nil
		},
	}
}
