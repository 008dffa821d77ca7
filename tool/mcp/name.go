package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

const maxName = 64

var badInName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// names returns names for tools that every provider of models takes: 1 to 64 letters, digits, "_" and "-". What
// else is in them becomes "_". A name that was changed and is no longer the only one, or was too long, ends in a
// hash of what it was: it does not depend on the order of the list.
func names(prefix string, originals []string) []string {
	all := make([]string, len(originals))
	count := map[string]int{}
	for i, original := range originals {
		all[i] = badInName.ReplaceAllString(prefix+original, "_")
		count[all[i]]++
	}
	for i, original := range originals {
		whole := prefix + original
		if len(all[i]) <= maxName && (count[all[i]] == 1 || all[i] == whole) {
			continue
		}
		hash := sha256.Sum256([]byte(whole))
		suffix := "_" + hex.EncodeToString(hash[:4])
		all[i] = all[i][:min(len(all[i]), maxName-len(suffix))] + suffix
	}
	return all
}
