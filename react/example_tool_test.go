package react_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/everstep-go/everstep/react"
)

type place struct {
	City string `json:"city" jsonschema:"city name, such as Oslo"`
}

type forecast struct {
	Sky     string `json:"sky"`
	Celsius int    `json:"celsius"`
}

func weather(_ context.Context, in place) (forecast, error) {
	if in.City != "Oslo" {
		return forecast{}, fmt.Errorf("no station in %s", in.City) // the model hears it
	}
	return forecast{Sky: "rain", Celsius: 9}, nil
}

func ExampleNewTool() {
	tool := react.NewTool("weather", "Current weather in a city.", weather)
	fmt.Println(string(tool.Spec().Parameters))
	for _, arguments := range []string{`{"city":"Oslo"}`, `{"city":"Rome"}`, `{"city":7}`} {
		result, err := tool.Call(context.Background(), react.ToolCall{Name: "weather", Arguments: json.RawMessage(arguments)})
		fmt.Println(string(result.Output), err)
	}
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"city name, such as Oslo"}},"required":["city"],"additionalProperties":false}
	// {"sky":"rain","celsius":9} <nil>
	//  no station in Rome
	//  invalid arguments: city: type: 7 has type "integer", want "string"
}
