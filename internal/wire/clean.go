package wire

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is the number of containers (objects and arrays) that may be nested in each other.
const MaxDepth = 512

// What can be wrong with JSON from outside; see [Error] for the place.
var (
	ErrSyntax = errors.New("invalid JSON")
	ErrUTF8   = errors.New("invalid UTF-8")
	ErrDepth  = fmt.Errorf("more than %d nested containers", MaxDepth)
)

// Error says what is wrong with a document and where.
type Error struct {
	Offset int   // of the byte at fault; the length of the document if it ends too early
	Err    error // ErrSyntax, ErrUTF8 or ErrDepth
}

func (e *Error) Error() string { return fmt.Sprintf("wire: %v at byte %d", e.Err, e.Offset) }

func (e *Error) Unwrap() error { return e.Err }

// Clean checks one JSON document from outside and returns it compact, with every escape of half a surrogate
// pair replaced by \ufffd. When nothing has to change it returns data itself and allocates nothing; data is
// never written to. Errors are of type [*Error].
func Clean(data []byte) ([]byte, error) {
	s := scanner{data: data}
	if err := s.document(); err != nil {
		return nil, &Error{Offset: s.pos, Err: err}
	}
	if !s.dirty {
		return data, nil
	}
	return rewrite(data), nil
}

// A scanner checks a document in one pass. It keeps the kinds of the open containers in a fixed array instead
// of calling itself, so that hostile nesting costs nothing.
type scanner struct {
	data  []byte
	pos   int
	dirty bool // white space to drop or a lone surrogate to replace
	depth int
	open  [MaxDepth]byte // closing brackets of the open containers
}

func (s *scanner) document() error {
	for {
		// Here a value is due.
		s.space()
		switch c := s.peek(); c {
		case '{', '[':
			if s.depth == MaxDepth {
				return ErrDepth
			}
			s.open[s.depth] = c + 2 // '}' and ']' stand two after their partners
			s.depth++
			s.pos++
			s.space()
			if s.peek() == c+2 {
				break // closed below, as after any other value
			}
			if c == '{' {
				if err := s.key(); err != nil {
					return err
				}
			}
			continue
		default:
			if err := s.scalar(c); err != nil {
				return err
			}
		}
		// Here a value is complete: close what ends with it and go on to the next.
		for {
			s.space()
			if s.depth == 0 {
				if s.pos < len(s.data) {
					return s.unexpected()
				}
				return nil
			}
			if s.peek() != s.open[s.depth-1] {
				break
			}
			s.depth--
			s.pos++
		}
		if s.peek() != ',' {
			return s.unexpected()
		}
		s.pos++
		if s.open[s.depth-1] == '}' {
			s.space()
			if err := s.key(); err != nil {
				return err
			}
		}
	}
}

// peek returns the next byte, or 0, which stands nowhere outside of strings, at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) && isSpace(s.data[s.pos]) {
		s.pos++
		s.dirty = true
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// unexpected tells a byte that is out of place from one that is no text at all.
func (s *scanner) unexpected() error {
	if r, n := utf8.DecodeRune(s.data[s.pos:]); r == utf8.RuneError && n == 1 {
		return ErrUTF8
	}
	return ErrSyntax
}

// key reads a key and its colon.
func (s *scanner) key() error {
	if s.peek() != '"' {
		return s.unexpected()
	}
	if err := s.text(); err != nil {
		return err
	}
	s.space()
	if s.peek() != ':' {
		return s.unexpected()
	}
	s.pos++
	return nil
}

func (s *scanner) scalar(c byte) error {
	switch c {
	case '"':
		return s.text()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *scanner) literal(word string) error {
	for i := range len(word) {
		if s.peek() != word[i] {
			return s.unexpected()
		}
		s.pos++
	}
	return nil
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.peek() == '.' {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

// digits reads one digit or more.
func (s *scanner) digits() error {
	if !isDigit(s.peek()) {
		return s.unexpected()
	}
	for isDigit(s.peek()) {
		s.pos++
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// text reads a string, from quote to quote.
func (s *scanner) text() error {
	s.pos++
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < ' ':
			return ErrSyntax
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, n := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && n == 1 {
				return ErrUTF8
			}
			s.pos += n
		}
	}
	return ErrSyntax
}

func (s *scanner) escape() error {
	if s.pos+1 == len(s.data) {
		s.pos++
		return ErrSyntax
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return nil
	case 'u':
		n, lone := surrogate(s.data[s.pos:])
		if n == 0 {
			return ErrSyntax
		}
		s.pos += n
		s.dirty = s.dirty || lone
		return nil
	}
	s.pos++
	return s.unexpected()
}

// surrogate looks at the \u escape at the start of data: how long it is (12 bytes for a pair, 0 if it is none)
// and whether it is half a pair.
func surrogate(data []byte) (n int, lone bool) {
	switch r := unit(data); {
	case r < 0:
		return 0, false
	case r < 0xd800 || r > 0xdfff:
		return 6, false
	case r < 0xdc00:
		if low := unit(data[6:]); 0xdc00 <= low && low <= 0xdfff {
			return 12, false
		}
	}
	return 6, true
}

// unit reads a \uXXXX escape; -1 if there is none.
func unit(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range data[2:6] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// rewrite returns a copy of data, which the scanner has accepted, without white space and lone surrogates.
func rewrite(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		if c := data[i]; c != '"' {
			if !isSpace(c) {
				out = append(out, c)
			}
			i++
			continue
		}
		end := i + 1
		for data[end] != '"' {
			if data[end] != '\\' {
				end++
				continue
			}
			if data[end+1] != 'u' {
				end += 2
				continue
			}
			n, lone := surrogate(data[end:])
			if lone {
				out = append(append(out, data[i:end]...), `\ufffd`...)
				i = end + n
			}
			end += n
		}
		out = append(out, data[i:end+1]...)
		i = end + 1
	}
	return out
}
