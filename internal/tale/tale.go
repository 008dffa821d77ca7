// Package tale tells tests of buses something: a run whose events they publish on one bus and hear on
// another, and a log that carries them from one to the other.
package tale

import (
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
)

// Tenant is whose every tale is.
const Tenant = "t"

// A Tale is a run, and the number of its next event. It is for one goroutine.
type Tale struct {
	Run, Session uuid.UUID
	Next         int64
}

// New returns a run of which nothing was told.
func New() *Tale { return &Tale{Run: uuid.New(), Session: uuid.New(), Next: 1} }

// Say publishes the next events of the run.
func (s *Tale) Say(bus event.Bus, data ...event.Data) {
	for _, d := range data {
		bus.Publish(event.Event{Seq: s.Next, Time: time.Now(), Tenant: Tenant, Session: s.Session, Run: s.Run, Data: d})
		s.Next++
	}
}

// Word is an event with a text.
func Word(text string) event.Data { return event.TextMessageContent{Delta: text} }

// Over is the last event.
var Over event.Data = event.RunFinished{Status: "completed"}

// Hear returns the texts that an observer hears until it ends, and a dot for the last event.
func Hear(seq iter.Seq2[event.Event, error]) (string, error) {
	var out strings.Builder
	for e, err := range seq {
		if err != nil {
			return out.String(), err
		}
		switch d := e.Data.(type) {
		case event.TextMessageContent:
			out.WriteString(d.Delta)
		case event.RunFinished:
			out.WriteString(".")
		}
	}
	return out.String(), nil
}
