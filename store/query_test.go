package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/store"
)

func TestPageHasAtMostTheGreatestNumberOfItems(t *testing.T) {
	t.Parallel()
	for perPage, want := range map[int]int{1: 1, 50: 50, 100: 100, 101: 100, 0: 100} {
		require.Equal(t, want, store.Paging{PerPage: perPage}.Limit(), "%d per page", perPage)
	}
}

func TestBothEndsBelongToATimeRange(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	before, after := now.Add(-1), now.Add(1)
	for _, c := range []struct {
		r    store.TimeRange
		want bool
	}{
		{store.TimeRange{}, true},
		{store.TimeRange{After: now}, true},
		{store.TimeRange{Before: now}, true},
		{store.TimeRange{After: now, Before: now}, true},
		{store.TimeRange{After: before, Before: after}, true},
		{store.TimeRange{After: after}, false},
		{store.TimeRange{Before: before}, false},
		{store.TimeRange{After: after, Before: before}, false},
	} {
		require.Equal(t, c.want, c.r.Contains(now), "%+v", c.r)
	}
}
