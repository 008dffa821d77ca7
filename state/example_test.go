package state_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everstep-go/everstep/state"
)

func Example() {
	patch, err := state.ParsePatch([]byte(`[
		{"op": "test", "path": "/visits", "value": 1.0},
		{"op": "replace", "path": "/visits", "value": 2},
		{"op": "add", "path": "/cities/-", "value": "Oslo"}
	]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	doc, err := patch.Apply(json.RawMessage(`{"visits": 1, "cities": []}`), nil)
	fmt.Println(string(doc), err)

	// The test does not hold a second time, so nothing applies.
	_, err = patch.Apply(doc, nil)
	fmt.Println(err, errors.Is(err, state.ErrTest))
	// Output:
	// {"visits":2,"cities":["Oslo"]} <nil>
	// state: operation 0 (test /visits): the value there is another true
}

func ExampleMerge() {
	patch, _ := state.Merge(json.RawMessage(`{"a/b": {"c": 1}}`))
	doc, _ := patch.Apply(json.RawMessage(`{"kept": true}`), nil)
	fmt.Println(patch[0].Path, string(doc))
	// Output: /a~1b {"kept":true,"a/b":{"c":1}}
}

func ExampleDiff() {
	patch, ok := state.Diff(
		json.RawMessage(`{"city": {"name": "Oslo", "rain": true}}`),
		json.RawMessage(`{"city": {"name": "Oslo"}}`))
	data, _ := json.Marshal(patch)
	fmt.Println(string(data), ok)
	// Output: [{"op":"remove","path":"/city/rain"}] true
}
