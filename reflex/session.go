package reflex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// TurnSession is the gateway of one agent's turn, on which its control tools (its spells) act: it
// checks what the agent wants against how things are, refuses with a reason for the model to read,
// and records the decision that the pass goes on with. The last decision of a turn counts.
type TurnSession struct {
	e            *Engine
	p            *pass
	step         int
	thread       Thread
	target       Place
	profile      *Profile
	agent        string
	conversation Conversation

	mu       sync.Mutex // guards what follows
	decision recorded
	sends    int
}

// recorded is what a turn decided.
type recorded struct {
	Summon   *HandoffDecision        `json:"summon,omitempty"`
	Scheme   *PrivateHandoffDecision `json:"scheme,omitempty"`
	Teleport *RelocateRequest        `json:"teleport,omitempty"`
	Dismiss  bool                    `json:"dismiss,omitempty"`
}

type sessionKey struct{}

// WithSession returns a context in which control tools find the session of their turn.
func WithSession(ctx context.Context, s *TurnSession) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, sessionKey{}, s)
}

// SessionFrom returns the session of the turn; nil outside of one.
func SessionFrom(ctx context.Context) *TurnSession {
	s, _ := ctx.Value(sessionKey{}).(*TurnSession)
	return s
}

// View is what a turn may know of where it is.
type View struct {
	Agent   string  `json:"agent"`
	Thread  string  `json:"thread"`
	Place   string  `json:"place"`
	Private bool    `json:"private"`
	Asker   string  `json:"asker,omitempty"`
	Agents  []Route `json:"agents"` // that may be summoned here
	Project string  `json:"project,omitempty"`
}

// Inspect returns where the turn is and whom it may hand over to.
func (s *TurnSession) Inspect() View {
	v := View{Agent: s.agent, Thread: s.thread.ID, Place: s.target.Address.Channel, Private: s.thread.Address.Private(), Project: s.thread.Project, Agents: []Route{}}
	if s.profile != nil {
		v.Asker = s.profile.Name
	}
	routes, _ := s.e.Routes(s.target.Address.Channel)
	v.Agents = append(v.Agents, slices.DeleteFunc(routes, func(r Route) bool { return r.Agent == s.agent })...)
	return v
}

// checkBrief says what is wrong with a brief.
func (e *Engine) checkBrief(brief string) error {
	if strings.TrimSpace(brief) == "" {
		return errors.New("the brief is empty: say what is to be done")
	}
	if len(brief) > e.config.MaxBrief {
		return fmt.Errorf("the brief has %d bytes; %d are allowed", len(brief), e.config.MaxBrief)
	}
	return nil
}

func (s *TurnSession) record(d recorded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Dismiss = s.decision.Dismiss
	s.decision = d
}

func (s *TurnSession) recorded() recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decision
}

// Summon decides to hand the conversation to another agent.
func (s *TurnSession) Summon(d HandoffDecision) error {
	if err := s.e.checkBrief(d.Brief); err != nil {
		return err
	}
	if d.Agent == s.agent {
		return errors.New("that is you: go on yourself")
	}
	if s.thread.InGroup() {
		return errors.New("nobody owns a group's main surface: go to a thread first, or take it into direct messages")
	}
	if d.Destination != nil && d.Destination.ID() != s.target.Address.ID() {
		return errors.New("a summon stays here")
	}
	_, model, err := s.e.resolve(s.target.Address.Channel, d.Agent, d.Model)
	if err != nil {
		return err
	}
	d.Model = model
	s.record(recorded{Summon: &d})
	return nil
}

// Scheme decides to take the work into the asker's direct messages.
func (s *TurnSession) Scheme(ctx context.Context, d PrivateHandoffDecision) error {
	if err := s.e.checkBrief(d.Brief); err != nil {
		return err
	}
	if s.thread.Address.Private() {
		return errors.New("this is private already")
	}
	if s.profile == nil || s.profile.User == "" && d.Channel != "" && d.Channel != s.profile.Channel {
		return errors.New("nobody asked for this whose direct messages could be opened")
	}
	if d.Channel == "" {
		d.Channel = s.target.Address.Channel
	}
	if _, err := s.e.canOpenDM(d.Channel); err != nil {
		return err
	}
	if _, err := s.e.profileOn(ctx, *s.profile, d.Channel); err != nil {
		return fmt.Errorf("there are no direct messages of the asker on %s", d.Channel)
	}
	s.record(recorded{Scheme: &d})
	return nil
}

// CheckTeleport says whether a move could be made, before anything asks for it.
func (s *TurnSession) CheckTeleport(ctx context.Context, r RelocateRequest) error {
	if err := canFork(s.e.agents[s.agent], r); err != nil {
		return err
	}
	return s.e.preflight(ctx, r, s.target, s.agent, s.profile)
}

// Teleport decides to move, for agents whose runtime cannot stop at a call: their turn ends as if
// the call had been deferred.
func (s *TurnSession) Teleport(ctx context.Context, r RelocateRequest) error {
	if err := s.CheckTeleport(ctx, r); err != nil {
		return err
	}
	s.record(recorded{Teleport: &r})
	return nil
}

// Dismiss decides that the workspace is not needed any more. It goes once the turn is saved.
func (s *TurnSession) Dismiss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decision.Dismiss = true
}

// Send says something while the turn goes on: here, or in the asker's direct messages on a channel.
// If the platform does not open them, it is said here. It returns where it was said.
func (s *TurnSession) Send(ctx context.Context, channel string, segments []Segment) (string, error) {
	if blank(segments) {
		return "", errors.New("there is nothing to send")
	}
	segments = slices.Clone(segments) // an event stays what it was, whatever the agent does with them
	s.mu.Lock()
	s.sends++
	n := s.sends
	s.mu.Unlock()
	here := spotOf(s.thread)
	if channel == "" {
		s.p.publish(here, MessageSent{Segments: segments})
		return "here", nil
	}
	key := fmt.Sprintf("%s/%d/send/%d", s.p.kick, s.step, n)
	at, err := s.openDM(ctx, channel, key)
	if err != nil {
		s.p.publish(here, MessageSent{Segments: segments})
		return "here: the direct messages could not be opened", nil
	}
	t, err := s.e.books.Threads.Ensure(ctx, threadAt(at))
	if err != nil {
		return "", err
	}
	row, err := s.e.books.Ledger.Append(ctx, Row{
		ID: RowID{Surface: t.Surface()}, Kind: OutboundRow, Thread: t.ID, Agent: s.agent, Segments: segments, Delivery: key,
	})
	if err != nil {
		return "", err
	}
	s.p.publish(spotOf(t), MessageSent{Segments: segments, Destination: &at, Row: row.ID})
	return "direct messages", nil
}

func (s *TurnSession) openDM(ctx context.Context, channel, key string) (Address, error) {
	if s.profile == nil {
		return Address{}, ErrProfileUnlinked
	}
	c, err := s.e.canOpenDM(channel)
	if err != nil {
		return Address{}, err
	}
	profile, err := s.e.profileOn(ctx, *s.profile, channel)
	if err != nil {
		return Address{}, err
	}
	return openDM(ctx, c, OpenRequest{Key: key, Profile: profile})
}

// canOpenDM returns a channel, unless it has no direct messages, or nobody who could run a turn there:
// a person would be led to a place where nobody answers.
func (e *Engine) canOpenDM(channel string) (Channel, error) {
	routes, err := e.Routes(channel)
	if err != nil {
		return nil, err
	}
	c := e.channels[channel]
	if _, dms := surfaces(c); !dms {
		return nil, fmt.Errorf("%w: %s has no direct messages", ErrNotPrivate, channel)
	}
	if len(routes) == 0 {
		return nil, fmt.Errorf("%w: nobody runs on %s", ErrAgentNotOnChannel, channel)
	}
	return c, nil
}

// openDM opens a person's direct messages. What others read too is not that.
func openDM(ctx context.Context, c Channel, r OpenRequest) (Address, error) {
	at, err := c.OpenDM(ctx, r)
	if err == nil && (at.Channel != c.ID() || !at.Private()) {
		err = fmt.Errorf("%w: %s opened %s", ErrNotPrivate, c.ID(), at.ID())
	}
	return at, err
}

// profileOn returns the account of a person on another channel, as it is linked now.
func (e *Engine) profileOn(ctx context.Context, p Profile, channel string) (Profile, error) {
	if p.Channel == channel {
		return p, nil
	}
	if p.User == "" {
		return Profile{}, fmt.Errorf("%w: %s is linked to nobody", ErrProfileUnlinked, p.ID)
	}
	return e.config.Users.Linked(ctx, p.User, channel)
}

// canFork says whether an agent can carry what it remembers to where it is to go.
func canFork(a Agent, r RelocateRequest) error {
	if _, ok := a.(Forker); !ok && !r.InPlace {
		return fmt.Errorf("%w: %s", ErrForkUnsupported, a.ID())
	}
	return nil
}

// preflight says whether a move could be made: all that can be known before something is opened.
func (e *Engine) preflight(ctx context.Context, r RelocateRequest, from Place, agent string, profile *Profile) error {
	channel := r.Channel
	if channel == "" {
		channel = from.Address.Channel
	}
	if _, _, err := e.resolve(channel, agent, ""); err != nil {
		return err
	}
	if threads, _ := surfaces(e.channels[channel]); !threads && !r.InPlace {
		return fmt.Errorf("%w: %s has no threads", ErrNothingMoved, channel)
	}
	if !r.InPlace && channel != from.Address.Channel {
		if profile == nil {
			return fmt.Errorf("%w: nobody asked", ErrProfileUnlinked)
		}
		if _, err := e.profileOn(ctx, *profile, channel); err != nil {
			return err
		}
	}
	if r.Project == "" {
		if r.Ref != "" {
			return fmt.Errorf("%w: a ref is one of a project, which is not named", ErrUnknownProject)
		}
		if r.InPlace {
			return fmt.Errorf("%w: neither a new thread nor a project", ErrNothingMoved)
		}
		return nil
	}
	known, err := e.config.Workspaces.Knows(ctx, r.Project, r.Ref)
	if err == nil && !known {
		err = fmt.Errorf("%w %q at %q", ErrUnknownProject, r.Project, r.Ref)
	}
	return err
}
