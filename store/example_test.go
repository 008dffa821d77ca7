package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// Errors of a store are told apart with errors.Is, and name what they are about.
func Example() {
	var st store.Store = memory.New(nil)
	_, err := st.Run(context.Background(), "default", uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
	fmt.Println(errors.Is(err, store.ErrNotFound))
	if missing, ok := errors.AsType[*store.NotFoundError](err); ok {
		fmt.Println(missing.Resource, missing.ID)
	}
	// Output:
	// true
	// run 6ba7b810-9dad-11d1-80b4-00c04fd430c8
}
