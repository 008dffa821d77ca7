package reflex

import (
	"github.com/google/uuid"
)

// State is what a pass knows between its nodes. All of it survives the process.
type State struct {
	// Signal is what came in, until Awake has taken it up.
	Signal *Envelope `json:"signal,omitempty"`
	Kind   string    `json:"kind"`  // of the signal
	Asked  Spot      `json:"asked"` // where the kick was asked

	Source Place `json:"source,omitzero"`
	Target Place `json:"target,omitzero"`
	// Thread is where the work is, Conversation the one of the agent there.
	Thread       string    `json:"thread,omitempty"`
	Conversation string    `json:"conversation,omitempty"`
	RunName      string    `json:"run_name,omitempty"`
	Decision     *Decision `json:"decision,omitempty"`
	Selection    Selection `json:"selection,omitzero"`
	Profile      *Profile  `json:"profile,omitempty"`
	Trigger      RowID     `json:"trigger,omitzero"`

	// Prompt is what is said to the agent, and Rows the rows of the surface that it is made of.
	Prompt []Segment `json:"prompt,omitempty"`
	Rows   []int64   `json:"rows,omitempty"`

	// Pending is a hand-over that the next run records. Announce is
	// the event that is due once it did.
	Pending  *Origin    `json:"pending,omitempty"`
	Announce *announced `json:"announce,omitempty"`

	// What the next node is to do: one of these.
	Answer   *BatchAnswer            `json:"answer,omitempty"`
	Batch    string                  `json:"batch,omitempty"` // that is being resumed
	Results  DeferredResults         `json:"results,omitempty"`
	Request  *RelocateRequest        `json:"request,omitempty"`
	Private  *PrivateHandoffDecision `json:"private,omitempty"`
	Command  *CommandSignal          `json:"command,omitempty"`
	NativeOf *Address                `json:"native_of,omitempty"` // the session that a teleport takes over

	Step  int      `json:"step,omitempty"`  // runs so far
	Moves int      `json:"moves,omitempty"` // hand-overs and moves so far
	Path  []string `json:"path,omitempty"`  // nodes that ran

	Outcome *Outcome `json:"outcome,omitempty"`
}

// announced is an event and where it happens.
type announced struct {
	At    Spot  `json:"at"`
	Moved Moved `json:"moved"`
}

// Selection is the agent and model that run, as they were resolved.
type Selection struct {
	Agent string `json:"agent,omitempty"`
	Model string `json:"model,omitempty"`
}

// OutcomeKind says how a pass ended.
type OutcomeKind string

const (
	OutcomeResult    OutcomeKind = "result"    // the work is done, or there was none
	OutcomeSuspended OutcomeKind = "suspended" // people are asked
	OutcomeCommand   OutcomeKind = "command"   // a command ended
	OutcomeAnswered  OutcomeKind = "answered"  // a live run got its answer; there was no pass
	OutcomeQueued    OutcomeKind = "queued"    // a pass follows the one under way
	OutcomeError     OutcomeKind = "error"
)

// Outcome is what became of a kick.
type Outcome struct {
	Kind     OutcomeKind `json:"kind"`
	Kick     uuid.UUID   `json:"kick"`
	Decision *Decision   `json:"decision,omitempty"` // nil if nobody was to run
	Target   Place       `json:"target,omitzero"`
	Thread   string      `json:"thread,omitempty"`
	RunName  string      `json:"run_name,omitempty"`
	Output   []Segment   `json:"output,omitempty"`
	Row      RowID       `json:"row,omitzero"` // the reply
	// Batch and Requests are what people are asked.
	Batch    string          `json:"batch,omitempty"`
	Requests []DeferredCall  `json:"requests,omitempty"`
	Command  *CommandOutcome `json:"command,omitempty"`
	// Path are the nodes that the pass went through.
	Path []string `json:"path,omitempty"`
}

// Text returns the texts of the output.
func (o Outcome) Text() string { return textOf(o.Output) }

// ends makes the state the end of a pass.
func (s State) ends(o Outcome) State {
	o.Decision, o.Target, o.Thread, o.RunName = s.Decision, s.Target, s.Thread, s.RunName
	s.Outcome = &o
	return s
}
