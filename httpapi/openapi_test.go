package httpapi

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
)

func documentOfRoutes() (*openAPI, []*route) {
	routes := (&handler{}).routes()
	return newOpenAPI("forecaster", "Knows about <umbrellas> & coats.", "v1.2.3", routes), routes
}

func TestEveryRouteIsInTheDocumentAndNothingElse(t *testing.T) {
	t.Parallel()
	doc, routes := documentOfRoutes()
	var want, got []string
	for _, rt := range routes {
		want = append(want, rt.method+" "+strings.TrimSuffix(rt.path, "{$}")+" "+rt.name)
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			got = append(got, strings.ToUpper(method)+" "+path+" "+op.ID)
		}
	}
	assert.ElementsMatch(t, want, got)
}

func TestEveryCodeIsDocumented(t *testing.T) {
	t.Parallel()
	doc, _ := documentOfRoutes()
	text := string(doc.print())
	f, err := parser.ParseFile(token.NewFileSet(), "error.go", nil, 0)
	require.NoError(t, err)
	n := 0
	ast.Inspect(f, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		n++
		code := spec.Values[0].(*ast.BasicLit).Value
		assert.Contains(t, text, code, spec.Names[0].Name)
		return true
	})
	assert.NotZero(t, n)
}

func TestEveryCodeOfARouteHasAMeaningAndAResponse(t *testing.T) {
	t.Parallel()
	doc, routes := documentOfRoutes()
	for _, rt := range routes {
		op := doc.Paths[rt.documented()][strings.ToLower(rt.method)]
		for _, code := range rt.codes() {
			assert.NotEmpty(t, meanings[code], code)
			assert.Contains(t, op.Responses[strconv.Itoa(code/1000)].Codes, code, rt.name)
		}
		assert.Contains(t, op.Responses, strconv.Itoa(rt.status))
	}
}

func TestEveryKindOfEventAndEveryRoleHasASchema(t *testing.T) {
	t.Parallel()
	schemas := newSchemas()
	told := func(component string) (values []string) {
		discriminator := schemas[component].Extra["discriminator"].(map[string]any)
		for value, to := range discriminator["mapping"].(map[string]string) {
			values = append(values, value)
			assert.Contains(t, schemas, path.Base(to))
		}
		return values
	}
	var kinds []string
	for _, kind := range event.Kinds() {
		kinds = append(kinds, string(kind))
	}
	assert.ElementsMatch(t, kinds, told("Event"))
	roles := []message.Role{message.RoleSystem, message.RoleUser, message.RoleAssistant, message.RoleTool, message.RoleReasoning}
	for _, role := range roles {
		assert.Contains(t, told("Message"), string(role))
	}
	assert.ElementsMatch(t, []string{"system", "user", "tool"}, told("CreateMessage"))
}

func TestEveryReferenceHasAComponentAndEveryComponentAReference(t *testing.T) {
	t.Parallel()
	doc, _ := documentOfRoutes()
	referred := map[string]bool{}
	for _, match := range regexp.MustCompile(`"\$ref":"#/components/schemas/(\w+)"`).FindAllStringSubmatch(string(doc.print()), -1) {
		referred[match[1]] = true
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(doc.Components.Schemas)), slices.Collect(maps.Keys(referred)))
}

// A null is printed, and nothing is left out but the params of a rule that has none.
func TestWhatIsPrintedIsPrintedAlways(t *testing.T) {
	t.Parallel()
	doc, _ := documentOfRoutes()
	seen := map[string]bool{}
	var check func(place string, s *schema)
	check = func(place string, s *schema) {
		if s == nil {
			return
		}
		if name := path.Base(s.Ref); s.Ref != "" && !seen[name] {
			seen[name] = true
			check(name, doc.Components.Schemas[name])
		}
		required := s.Required
		if place == "FieldError" {
			required = append(required, "params")
		}
		assert.ElementsMatch(t, slices.Collect(maps.Keys(s.Properties)), required, place)
		for name, p := range s.Properties {
			check(place+"."+name, p)
		}
		check(place, s.Items)
		for _, s := range slices.Concat(s.AnyOf, s.OneOf) {
			check(place, s)
		}
	}
	for _, methods := range doc.Paths {
		for _, op := range methods {
			for _, res := range op.Responses {
				for _, m := range res.Content {
					check(op.ID, m.Schema)
				}
			}
		}
	}
	assert.Contains(t, seen, "FieldError")
}

func TestTheDocumentIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	first, routes := documentOfRoutes()
	text := string(first.print())
	assert.True(t, json.Valid([]byte(text)))
	assert.NotContains(t, text, `\u00`, "an HTML escape")
	for range 5 {
		doc, _ := documentOfRoutes()
		assert.Equal(t, text, string(doc.print()))
		assert.Equal(t, first.page(routes), doc.page(routes))
	}
}

func TestThePageNamesEverythingAndFetchesNothing(t *testing.T) {
	t.Parallel()
	doc, routes := documentOfRoutes()
	text := string(doc.page(routes))
	assert.Contains(t, text, "Knows about &lt;umbrellas&gt; &amp; coats.")
	ids := map[string]bool{}
	for _, match := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		assert.False(t, ids[match[1]], "id %s is there twice", match[1])
		ids[match[1]] = true
	}
	for _, rt := range routes {
		assert.Contains(t, text, "<code>"+rt.documented()+"</code>")
		assert.True(t, ids[rt.name], rt.name)
	}
	for name := range doc.Components.Schemas {
		assert.True(t, ids[name], name)
	}
	for _, match := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		assert.True(t, ids[strings.TrimPrefix(match[1], "#")], "%s leads nowhere", match[1])
	}
	for _, foreign := range []string{"http://", "https://", "<script", "src=", "url(", "@import", "<link", " style=", "ZgotmplZ"} {
		assert.NotContains(t, text, foreign)
	}
}
