package httpapi

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"path"
	"slices"
	"strings"
)

//go:embed docs.html
var docsTemplate string

// An endpoint is an operation with its place, as the page shows it.
type endpoint struct {
	Method, Path string
	*operation
}

// page returns the document as a page for people, with the endpoints in the order of the routes.
func (doc *openAPI) page(routes []*route) page {
	var endpoints []endpoint
	for _, rt := range routes {
		endpoints = append(endpoints, endpoint{rt.method, rt.documented(), doc.Paths[rt.documented()][strings.ToLower(rt.method)]})
	}
	t := template.Must(template.New("docs").Funcs(template.FuncMap{
		"component":  path.Base, // the name that a reference ends in
		"json":       asJSON,
		"meaning":    func(code int) string { return meanings[code] },
		"paragraphs": func(text string) []string { return strings.Split(text, "\n\n") },
		"requires":   func(s *schema, member string) bool { return slices.Contains(s.Required, member) },
	}).Parse(docsTemplate))
	var b strings.Builder
	err := t.Execute(&b, map[string]any{"Info": doc.Info, "Endpoints": endpoints, "Schemas": doc.Components.Schemas})
	if err != nil {
		panic(err)
	}
	return page(b.String())
}

func asJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}
