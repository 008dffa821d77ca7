package reflex

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
)

// Event is one thing that happened in a pass.
type Event struct {
	// Seq is the number in the pass. Numbers are contiguous while one process works on it, and jump
	// when another one takes it up. Zero: it is of no pass.
	Seq  int64
	Time time.Time
	Kick uuid.UUID
	// At is where it happened: it is heard there.
	At Spot
	// AskedOn is the thread that the kick was asked on: it is heard there too, unless Private.
	AskedOn Spot
	// Private: it is heard only where it landed.
	Private bool
	Data    Data
}

// Spot is a place as listeners name it.
type Spot struct {
	Channel string  `json:"channel"`
	Surface string  `json:"surface"`
	Thread  string  `json:"thread,omitempty"`
	Address Address `json:"address"`
}

// Data is what an event says. Its types are the ones in this package.
type Data interface {
	// Kind is the name of the type on the wire.
	Kind() string
	sealed()
}

type (
	// ReflexAwake is the first event of a pass.
	ReflexAwake struct {
		Thread string `json:"thread"`
		Signal string `json:"signal"` // its kind
		// Recovered: another process had begun the pass, and died.
		Recovered bool `json:"recovered,omitempty"`
	}
	// ReflexAsleep is the last event of a pass.
	ReflexAsleep struct {
		Outcome OutcomeKind `json:"outcome"`
	}
	// RunStarted begins the events of an agent's run.
	RunStarted struct {
		Run     uuid.UUID `json:"run_id"`
		Address Address   `json:"address"` // that the run reports into
		Agent   string    `json:"agent"`
		Model   string    `json:"model"`
		Name    string    `json:"run_name"`
	}
	// RunEnded ends them.
	RunEnded struct {
		Run uuid.UUID `json:"run_id"`
		How string    `json:"how"` // completed, suspended or failed
	}
	// AgentEvent is something that an agent's run says while it works.
	AgentEvent struct{ event.Data }
	// ReplyGiven shows the reply of a run, which is the row.
	ReplyGiven struct {
		Output []Segment     `json:"output"`
		Usage  message.Usage `json:"usage,omitzero"`
		Row    RowID         `json:"row"`
	}
	// MessageSent is what an agent said by its tool, here or elsewhere. Elsewhere it is a row.
	MessageSent struct {
		Segments    []Segment `json:"segments"`
		Destination *Address  `json:"destination,omitempty"`
		Row         RowID     `json:"row,omitzero"`
	}
	// Moved is heard in the chat that work left.
	Moved struct {
		Action      string    `json:"action"` // summon, scheme or teleport
		Agent       string    `json:"agent"`
		Destination Address   `json:"destination"`
		Line        []Segment `json:"line,omitempty"`
		Row         RowID     `json:"row,omitzero"` // of the line
	}
	// Opened is heard where work arrived: the row begins the thread.
	Opened struct {
		Line []Segment `json:"line"`
		Row  RowID     `json:"row"`
	}
	// BatchAsked asks people.
	BatchAsked struct {
		Batch   string   `json:"batch_id"`
		Actions []Action `json:"actions"`
	}
	// BatchAnswered says what became of a batch.
	BatchAnswered struct {
		Batch     string      `json:"batch_id"`
		Status    BatchStatus `json:"status"`
		Actions   []Action    `json:"actions"`
		Responder Profile     `json:"responder,omitzero"`
	}
	// CommandFeedback says how a command ended.
	CommandFeedback struct {
		Command string         `json:"command"`
		Outcome CommandOutcome `json:"result"`
	}
	// RunFailed says that the turn failed, where it came from.
	RunFailed struct {
		Message string    `json:"message"`
		Trace   uuid.UUID `json:"trace_id"` // the kick, to be found in logs
	}
	// RenderFailed tells watchers that a channel could not draw an event.
	RenderFailed struct {
		Channel string `json:"channel"`
		Seq     int64  `json:"event"`
	}
	// Extension is an event of a program's own, published by [Engine.Publish].
	Extension struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value,omitempty"`
	}
	// Lag says that the listener was too slow and missed events. What they showed is in the ledger:
	// [Engine.Missed] has it.
	Lag struct {
		Missed int `json:"missed"`
		// Rows are the first ones that were missed, at most one of each surface.
		Rows []RowID `json:"rows,omitempty"`
	}
)

func (ReflexAwake) Kind() string     { return "reflex_awake" }
func (ReflexAsleep) Kind() string    { return "reflex_asleep" }
func (RunStarted) Kind() string      { return "run_started" }
func (RunEnded) Kind() string        { return "run_ended" }
func (e AgentEvent) Kind() string    { return string(e.Data.Kind()) }
func (ReplyGiven) Kind() string      { return "run_result" }
func (MessageSent) Kind() string     { return "message_sent" }
func (Moved) Kind() string           { return "gateway" }
func (Opened) Kind() string          { return "thread_opened" }
func (BatchAsked) Kind() string      { return "action_batch" }
func (BatchAnswered) Kind() string   { return "action_batch_answered" }
func (CommandFeedback) Kind() string { return "command_feedback" }
func (RunFailed) Kind() string       { return "run_error" }
func (RenderFailed) Kind() string    { return "render_failed" }
func (Extension) Kind() string       { return "extension" }
func (Lag) Kind() string             { return "lag" }

func (ReflexAwake) sealed()     {}
func (ReflexAsleep) sealed()    {}
func (RunStarted) sealed()      {}
func (RunEnded) sealed()        {}
func (AgentEvent) sealed()      {}
func (ReplyGiven) sealed()      {}
func (MessageSent) sealed()     {}
func (Moved) sealed()           {}
func (Opened) sealed()          {}
func (BatchAsked) sealed()      {}
func (BatchAnswered) sealed()   {}
func (CommandFeedback) sealed() {}
func (RunFailed) sealed()       {}
func (RenderFailed) sealed()    {}
func (Extension) sealed()       {}
func (Lag) sealed()             {}

// rowOf returns the row that an event shows, if it shows one.
func rowOf(d Data) (RowID, bool) {
	var id RowID
	switch d := d.(type) {
	case ReplyGiven:
		id = d.Row
	case MessageSent:
		id = d.Row
	case Moved:
		id = d.Row
	case Opened:
		id = d.Row
	}
	return id, !id.IsZero()
}

// MarshalJSON writes the event with its data as a member.
func (e Event) MarshalJSON() ([]byte, error) {
	data := any(e.Data)
	if a, ok := e.Data.(AgentEvent); ok {
		text, err := event.Event{Time: e.Time, Run: e.Kick, Data: a.Data}.MarshalJSON()
		if err != nil {
			return nil, err
		}
		data = json.RawMessage(text)
	}
	return wire.Marshal(struct {
		Kind    string    `json:"kind"`
		Seq     int64     `json:"seq"`
		Time    time.Time `json:"timestamp"`
		Kick    uuid.UUID `json:"kick_id"`
		At      Spot      `json:"at"`
		AskedOn string    `json:"asked_on"`
		Data    any       `json:"data"`
	}{e.Data.Kind(), e.Seq, e.Time.UTC(), e.Kick, e.At, e.AskedOn.Surface, data})
}
