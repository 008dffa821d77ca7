package checkpoint_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everstep-go/everstep/checkpoint"
)

func TestAHistoryGoesFromTheRootToTheCheckpoint(t *testing.T) {
	t.Parallel()
	lines := []checkpoint.Line{
		{ID: 3, Parent: 2, Fork: 6},
		{ID: 1},
		{ID: 2, Parent: 1, Fork: 3},
		{ID: 4},                                                  // a second root
		{ID: 5, Parent: 9, Fork: 4},                              // its parent is missing
		{ID: 6, Parent: 7, Fork: 1}, {ID: 7, Parent: 6, Fork: 1}, // damage
	}
	for name, c := range map[string]struct {
		line, seq int64
		want      []checkpoint.Span
	}{
		"on the first line":             {1, 5, []checkpoint.Span{{Line: 1, From: 0, To: 5}}},
		"on a fork":                     {2, 7, []checkpoint.Span{{Line: 1, From: 0, To: 3}, {Line: 2, From: 3, To: 7}}},
		"on a fork of a fork":           {3, 9, []checkpoint.Span{{Line: 1, From: 0, To: 3}, {Line: 2, From: 3, To: 6}, {Line: 3, From: 6, To: 9}}},
		"on another root":               {4, 9, []checkpoint.Span{{Line: 4, From: 0, To: 9}}},
		"with a parent that is missing": {5, 9, []checkpoint.Span{{Line: 5, From: 4, To: 9}}},
		"on a line that is not there":   {8, 9, nil},
		"before there are any":          {checkpoint.Base, 9, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, checkpoint.History(lines, c.line, c.seq))
		})
	}
	assert.LessOrEqual(t, len(checkpoint.History(lines, 6, 9)), len(lines)+1, "a cycle ends, too")
}

// A history by spans is the same as the walk from parent to parent.
func TestAHistoryIsTheWalkToTheRoot(t *testing.T) {
	t.Parallel()
	type position struct {
		seq, line int64
		parent    *position
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var lines []checkpoint.Line
		var all []*position
		last := make(map[int64]*position)
		for seq := int64(1); seq <= 60; seq++ {
			p := &position{seq: seq}
			switch n := r.IntN(10); {
			case len(all) == 0 || n == 0:
				p.line = int64(len(lines)) + 1
				lines = append(lines, checkpoint.Line{ID: p.line})
			case n < 3:
				p.parent = all[r.IntN(len(all))]
				p.line = int64(len(lines)) + 1
				lines = append(lines, checkpoint.Line{ID: p.line, Parent: p.parent.line, Fork: p.parent.seq})
			default:
				p.line = lines[r.IntN(len(lines))].ID
				p.parent = last[p.line]
			}
			last[p.line] = p
			all = append(all, p)
		}
		r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		for _, p := range all {
			var want, got []int64
			for q := p; q != nil; q = q.parent {
				want = append(want, q.seq)
			}
			slices.Reverse(want)
			for _, span := range checkpoint.History(lines, p.line, p.seq) {
				for _, q := range all {
					if q.line == span.Line && q.seq > span.From && q.seq <= span.To {
						got = append(got, q.seq)
					}
				}
			}
			if !assert.Equal(t, want, got, "seed %d, sequence %d", seed, p.seq) {
				return
			}
		}
	}
}
