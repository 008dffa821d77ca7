package message

import "time"

// TransientError says that a model could not answer now but may if it is asked again: too many requests, an
// overloaded or failing server, a broken connection. Agents try again only on these, and only before the first
// delta.
type TransientError struct {
	Err        error
	RetryAfter time.Duration // what the provider asked for; zero if it did not say
}

// Transient marks err as worth another try after the given time, zero if the provider did not say. Nil stays nil.
func Transient(err error, retryAfter time.Duration) error {
	if err == nil {
		return nil
	}
	return &TransientError{Err: err, RetryAfter: retryAfter}
}

func (e *TransientError) Error() string { return e.Err.Error() }

func (e *TransientError) Unwrap() error { return e.Err }
