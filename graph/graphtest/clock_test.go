package graphtest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

func TestAClockMovesOnlyWhenItIsTold(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := graphtest.NewClock(began)
	assert.Equal(t, began, c.Now())
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { c.Add(time.Second) })
	}
	all.Wait()
	c.Add(-3 * time.Second)
	assert.Equal(t, began.Add(7*time.Second), c.Now())
}

func TestAClockMakesLeasesRunOut(t *testing.T) {
	t.Parallel()
	c := graphtest.NewClock(time.Now())
	st := memory.New(&memory.Options{Now: c.Now})
	_, err := st.Begin(t.Context(), &store.Begin{
		Fence: store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}, Session: uuid.New(), Graph: "g",
		WriteID: uuid.New(), Status: "running", Lease: time.Minute,
	})
	require.NoError(t, err)
	claim := func() int {
		runs, err := st.Claim(t.Context(), &store.Claim{Owner: uuid.New(), Graphs: []string{"g"}, Lease: time.Minute, Limit: 1})
		require.NoError(t, err)
		return len(runs)
	}
	c.Add(time.Minute - 1)
	assert.Zero(t, claim())
	c.Add(1)
	assert.Equal(t, 1, claim())
}
