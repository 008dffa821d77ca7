package state

import (
	"errors"
	"strconv"
	"strings"
)

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// Pointer joins tokens to a JSON Pointer (RFC 6901), escaping each. Without tokens it is "", the whole
// document.
func Pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		_, _ = escaper.WriteString(&b, t)
	}
	return b.String()
}

func checkPointer(p string) error {
	if p == "" {
		return nil
	}
	if p[0] != '/' {
		return errors.New(`a pointer is empty or begins with "/"`)
	}
	for i := 0; i < len(p); i++ {
		if p[i] == '~' && (i+1 == len(p) || p[i+1] != '0' && p[i+1] != '1') {
			return errors.New(`"~" in a pointer is written "~0"`)
		}
	}
	return nil
}

// odd reports whether the engine reads the key, as a token of a pointer, differently from RFC 6901: it
// takes the empty key for the container itself, and 01, +1 and -0 for array indices.
func odd(key string) bool {
	if key == "" {
		return true
	}
	n, err := strconv.Atoi(key)
	return err == nil && (n < 0 || strconv.Itoa(n) != key)
}

// mapTokens rewrites each token of a valid pointer.
func mapTokens(p string, f func(string) string) string {
	if p == "" {
		return p
	}
	tokens := strings.Split(p[1:], "/")
	for i, t := range tokens {
		tokens[i] = f(unescaper.Replace(t))
	}
	return Pointer(tokens...)
}

func hasOddToken(p string) bool {
	if p == "" {
		return false
	}
	for t := range strings.SplitSeq(p[1:], "/") {
		if odd(unescaper.Replace(t)) {
			return true
		}
	}
	return false
}
