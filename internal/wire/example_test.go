package wire_test

import (
	"errors"
	"fmt"

	"github.com/everstep-go/everstep/internal/wire"
)

func Example() {
	data, err := wire.Clean([]byte(`{ "price": 1E2, "name": "\ud800" }`))
	fmt.Println(string(data), err)

	_, err = wire.Clean([]byte(`{"price": }`))
	fmt.Println(err, errors.Is(err, wire.ErrSyntax))
	// Output:
	// {"price":1E2,"name":"\ufffd"} <nil>
	// wire: invalid JSON at byte 10 true
}
