package body

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/everstep-go/everstep/internal/wire"
)

// Kind says in what way a body is wrong.
type Kind int

// The kinds of errors, in the order in which they are looked for (contract R21). That a body is too large is
// an http.MaxBytesError.
const (
	WrongType  Kind = iota // it is not said to be JSON
	Unreadable             // it ended too early
	NoJSON
	WrongShape
)

// Error says what is wrong with a body.
type Error struct {
	Kind   Kind
	Reason string // for the client
}

func (e *Error) Error() string { return e.Reason }

// Read returns the body of a request: JSON that can be decoded without loss. A negative limit is none.
func Read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	if charset := params["charset"]; err != nil || !isJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, &Error{WrongType, "the body must be JSON: send Content-Type: application/json"}
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &Error{WrongType, fmt.Sprintf("the body must not be encoded as %q", encoding)}
	}
	body := io.Reader(r.Body)
	if limit >= 0 {
		body = http.MaxBytesReader(w, r.Body, limit)
	}
	text, err := io.ReadAll(body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, err
	} else if err != nil {
		return nil, &Error{Unreadable, "the body could not be read to its end"}
	}
	if text, err = wire.Clean(text); err != nil {
		return nil, &Error{NoJSON, "the body is not valid JSON: " + err.Error()}
	}
	return text, nil
}
