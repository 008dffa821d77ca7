package httpapi

import (
	"encoding/json"
	"strings"
)

// openAPI makes the OpenAPI document of the routes.
func openAPI(name, description, version string, routes []*route) []byte {
	paths := map[string]map[string]any{}
	for pattern, methods := range byPath(routes) {
		item := map[string]any{}
		for method, rt := range methods {
			item[strings.ToLower(method)] = map[string]any{"operationId": rt.name, "summary": rt.summary}
		}
		paths[strings.TrimSuffix(pattern, "{$}")] = item
	}
	document, err := json.Marshal(map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": name, "description": description, "version": version}, "paths": paths,
	})
	if err != nil {
		panic(err)
	}
	return document
}

func docsPage(document []byte) page { return page("<pre>" + string(document) + "</pre>") }
