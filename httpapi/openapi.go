package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/store"
)

// An openAPI is an OpenAPI document, as far as routes need one.
type openAPI struct {
	Version    string                           `json:"openapi"`
	Info       info                             `json:"info"`
	Paths      map[string]map[string]*operation `json:"paths"` // by path and method
	Components struct {
		Schemas schemas `json:"schemas"`
	} `json:"components"`
}

type info struct {
	Title       string `json:"title"`
	Description string `json:"description"`
	Version     string `json:"version"`
}

type operation struct {
	ID         string              `json:"operationId"`
	Summary    string              `json:"summary"`
	Parameters []parameter         `json:"parameters,omitempty"`
	Body       *content            `json:"requestBody,omitempty"`
	Responses  map[string]*content `json:"responses"` // by status
}

type parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Style       string  `json:"style,omitempty"`
	Explode     bool    `json:"explode,omitempty"`
	Schema      *schema `json:"schema"`
}

// content is a body, of a request or a response.
type content struct {
	Description string           `json:"description,omitempty"`
	Required    bool             `json:"required,omitempty"`
	Content     map[string]media `json:"content,omitempty"` // by media type

	Codes []int `json:"-"` // of an error
}

type media struct {
	Schema *schema `json:"schema"`
}

// conventions are what holds for every path.
const conventions = `Ids are UUIDs in any usual spelling, printed in lower case with hyphens. Members of bodies and parameters
that are not described here are ignored. A path that does not exist is answered with 404 and the code 404000, a
method that a path does not have with 405 and the code 405000.`

// newOpenAPI makes the document of the routes.
func newOpenAPI(name, description, version string, routes []*route) *openAPI {
	doc := &openAPI{Version: "3.1.0", Info: info{name, strings.TrimSpace(description + "\n\n" + conventions), version}}
	doc.Components.Schemas = newSchemas()
	doc.Paths = map[string]map[string]*operation{}
	for _, rt := range routes {
		path := rt.documented()
		if doc.Paths[path] == nil {
			doc.Paths[path] = map[string]*operation{}
		}
		doc.Paths[path][strings.ToLower(rt.method)] = rt.operation()
	}
	return doc
}

// print returns the document as JSON.
func (doc *openAPI) print() []byte {
	text, err := wire.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return text
}

// documented returns the path as the document has it.
func (rt *route) documented() string { return strings.TrimSuffix(rt.path, "{$}") }

func (rt *route) operation() *operation {
	op := &operation{ID: rt.name, Summary: rt.summary, Parameters: rt.parameters(), Responses: map[string]*content{}}
	if rt.body != "" {
		op.Body = &content{Required: true, Content: map[string]media{"application/json": {ref(rt.body)}}}
	}
	op.Responses[strconv.Itoa(rt.status)] = rt.success()
	for _, code := range rt.codes() {
		status := strconv.Itoa(code / 1000)
		res := op.Responses[status]
		if res == nil {
			res = &content{Content: map[string]media{"application/json": {ref("Error")}}}
			op.Responses[status] = res
		}
		res.Codes = append(res.Codes, code)
		if res.Description != "" {
			res.Description += "; "
		}
		res.Description += fmt.Sprintf("%d: %s", code, meanings[code])
	}
	return op
}

func (rt *route) success() *content {
	switch rt.result {
	case "":
		return &content{Description: "It is done."}
	case htmlPage:
		return &content{Description: "The page.", Content: map[string]media{htmlPage: {&schema{Type: "string"}}}}
	case eventStream:
		return &content{
			Description: "Server-sent events until the run has ended. The schema is that of the data of each; its id is the number in the run, its event the kind. " +
				"If the stream has to end before the run, the last one is called error and its data is an Error.",
			Content: map[string]media{eventStream: {ref("Event")}},
		}
	}
	return &content{Description: "The answer.", Content: map[string]media{"application/json": {ref(rt.result)}}}
}

var wildcard = regexp.MustCompile(`\{(\w+)\}`)

func (rt *route) parameters() (all []parameter) {
	for _, match := range wildcard.FindAllStringSubmatch(rt.path, -1) {
		all = append(all, parameter{Name: match[1], In: "path", Required: true, Schema: aUUID})
	}
	for _, f := range rt.filters {
		all = append(all, f.parameter())
	}
	if rt.filters != nil {
		all = append(all, parameter{
			Name: "page", In: "query", Description: "next_page of the page before, with the same filters", Schema: &schema{Type: "string"},
		}, parameter{
			Name: "per_page", In: "query", Description: "how many items a page has", Schema: &schema{
				Type: "integer", Minimum: new(1.0), Maximum: new(float64(store.MaxPerPage)), Default: []byte(strconv.Itoa(store.MaxPerPage)),
			},
		})
	}
	if !rt.public {
		all = append(all, parameter{
			Name: TenantHeader, In: "header", Schema: &schema{Type: "string", MinLength: new(1)},
			Description: "whose request it is, the default tenant's if left out; a service that knows its clients may decide otherwise",
		})
	}
	if rt.result == eventStream && rt.method == http.MethodGet {
		all = append(all, parameter{
			Name: "Last-Event-ID", In: "header", Schema: &schema{Type: "integer", Minimum: new(float64)},
			Description: "the id after which the stream begins, 0 for all that is kept; without it the stream begins now",
		})
	}
	return all
}

func (f *filter) parameter() parameter {
	s := &schema{Type: "string", Format: f.format}
	for _, v := range f.values {
		s.Enum = append(s.Enum, v)
	}
	p := parameter{Name: f.name, In: "query", Description: f.about, Schema: s}
	if f.many {
		p.Name, p.Style, p.Explode, p.Schema = f.name+"[]", "form", true, &schema{Type: "array", Items: s}
	}
	return p
}

// codes returns the codes of the errors of the route, its own and those that many have, sorted.
func (rt *route) codes() []int {
	codes := slices.Concat(rt.errors, []int{CodeUnexpected})
	if !rt.public {
		codes = append(codes, CodeBadRequest, CodeForbidden, CodeUnavailable)
	}
	if rt.body != "" {
		codes = append(codes, CodeContentType, CodeInvalidJSON, CodeBodyTooLarge, CodeWrongShape)
	}
	if rt.filters != nil {
		codes = append(codes, CodeInvalid)
	}
	slices.SortFunc(codes, cmp.Compare[int])
	return slices.Compact(codes)
}

// meanings say what the codes of routes mean.
var meanings = map[int]string{
	CodeBadRequest:         "a path parameter, the query string, a header or the body cannot be read",
	CodeContentType:        "the content type is not JSON",
	CodeInvalidJSON:        "the body is not valid JSON",
	CodeSessionExists:      "the session exists already",
	CodeRunExists:          "the run exists already",
	CodeMessageExists:      "the message exists already",
	CodeForbidden:          "forbidden",
	CodeSessionNotFound:    "no such session",
	CodeRunNotFound:        "no such run",
	CodeMessageNotFound:    "no such message",
	CodeCheckpointNotFound: "no such checkpoint",
	CodeSessionBusy:        "the session has an active run",
	CodeRunNotActive:       "the run has ended, and Last-Event-ID is not given",
	CodeBodyTooLarge:       "the body is too large",
	CodeWrongShape:         "a wrong type, a missing member, an unknown value",
	CodeInvalid:            "fields says what breaks which rule",
	CodeUnexpected:         "unexpected error",
	CodeUnavailable:        "the service is shutting down, or its store does not answer",
}
