package state

import (
	"bytes"
	"encoding/json"
)

// diffDepth is how many levels of objects [Diff] looks into. Deeper changes replace what is there.
const diffDepth = 8

// Diff returns a patch that makes after of before, if both are objects. It compares objects member by
// member and replaces any other value whole, so it is cheap, keeps a small change of a large document
// small, and does not look for the smallest patch. The result of applying it equals after; the order of
// members may differ. It reports false where no patch can be made within the default limits.
func Diff(before, after json.RawMessage) (Patch, bool) {
	lim := DefaultLimits()
	a, err := compact(before, lim.Depth)
	if err != nil {
		return nil, false
	}
	b, err := compact(after, lim.Depth)
	if err != nil || a[0] != '{' || b[0] != '{' {
		return nil, false
	}
	p := diff(nil, "", a, b, diffDepth)
	return p, len(p) <= lim.Operations
}

func diff(p Patch, path string, a, b []byte, depth int) Patch {
	before, after := split(a), split(b)
	old, stays := byName(before), byName(after)
	for _, m := range before {
		key := m.name()
		if _, ok := stays[key]; !ok {
			p = append(p, Remove(path+Pointer(key)))
		}
	}
	for _, m := range after {
		key := m.name()
		was, ok := old[key]
		switch {
		case !ok:
			p = append(p, Add(path+Pointer(key), m.value))
		case bytes.Equal(was, m.value):
		case depth > 1 && was[0] == '{' && m.value[0] == '{':
			p = diff(p, path+Pointer(key), was, m.value, depth-1)
		default:
			p = append(p, Replace(path+Pointer(key), m.value))
		}
	}
	return p
}
