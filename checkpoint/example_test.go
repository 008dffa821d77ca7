package checkpoint_test

import (
	"fmt"

	"github.com/everstep-go/everstep/checkpoint"
)

// A session forked twice: line 2 leaves line 1 after sequence 10, line 3 leaves line 2 after 20.
// A checkpoint on line 3 sees a piece of each.
func ExampleHistory() {
	lines := []checkpoint.Line{{ID: 1}, {ID: 2, Parent: 1, Fork: 10}, {ID: 3, Parent: 2, Fork: 20}}
	for _, span := range checkpoint.History(lines, 3, 25) {
		fmt.Printf("line %d: after %d up to %d\n", span.Line, span.From, span.To)
	}
	// Output:
	// line 1: after 0 up to 10
	// line 2: after 10 up to 20
	// line 3: after 20 up to 25
}

// The codec of a state that is a document keeps what changed of it.
func ExampleJSON() {
	type doc struct {
		Title string
		Text  string
	}
	var codec checkpoint.JSON[doc]
	before, after := doc{"Oslo", "It is"}, doc{"Oslo", "It is cold."}
	document, err := codec.Result(before)
	if err != nil {
		fmt.Println(err)
		return
	}
	change, err := codec.Encode(document, before, after)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, op := range change.Patch {
		fmt.Println(op.Op, op.Path, string(op.Value))
	}
	// Output: replace /Text "It is cold."
}
