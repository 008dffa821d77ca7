package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/store"
)

// maxCalls bounds the calls of a tape: what is wrong shows in short ones.
const maxCalls = 120

// A player makes the calls that a tape says, of three owners, and holds the answers against a
// model.
type player struct {
	*bundle
	tape   *tape
	model  model
	owners [3]uuid.UUID
	fences []store.Fence // all that were ever given
	log    []string      // of the calls made
	// reached is which calls were made and how they came out.
	reached map[string]bool
	ended   map[uuid.UUID]store.Run
	found   map[uuid.UUID]any // records that never change, as they were first seen
}

// A move is a kind of call, and how often it is made in relation to others.
type move struct {
	weight int
	make   func(*player)
}

var moves = []move{
	{5, (*player).begin},
	{6, (*player).commit},
	{3, (*player).saveTask},
	{3, (*player).promote},
	{3, (*player).claim},
	{2, (*player).renew},
	{2, (*player).cancel},
	{1, (*player).release},
	{2, (*player).repeat},
	{1, (*player).createSession},
	{2, (*player).createMessage},
	{2, (*player).deleteMessage},
	{1, (*player).deleteSession},
	{2, (*player).prune},
	{3, (*player).moveClock},
	{1, (*player).reopenStore},
	{2, (*player).lookBack},
	{1, (*player).lookAbroad},
}

// play plays a tape on a new store, and returns what it reached.
func play(t testing.TB, h Harness, bytes []byte) map[string]bool {
	p := &player{
		bundle: newBundle(t, h), tape: &tape{bytes: bytes},
		reached: map[string]bool{}, ended: map[uuid.UUID]store.Run{}, found: map[uuid.UUID]any{},
	}
	for i := range p.owners {
		p.owners[i] = p.tape.id()
	}
	defer func() {
		if t.Failed() {
			t.Logf("the tape: %x\nits calls:\n%s", bytes, strings.Join(p.log, "\n"))
		}
	}()
	var byWeight []move
	for _, m := range moves {
		byWeight = append(byWeight, slices.Repeat([]move{m}, m.weight)...)
	}
	for range maxCalls {
		if p.tape.empty() {
			break
		}
		byWeight[p.tape.pick(len(byWeight))].make(p)
		p.check()
	}
	p.checkAll()
	return p.reached
}

// outcomes are the errors that the driver's interface names.
var outcomes = []error{
	store.ErrNotFound, store.ErrExists, store.ErrLost, store.ErrBusy, store.ErrConflict, store.ErrCancelRequested,
}

// reach notes that a call came out in some way.
func (p *player) reach(call string, happened bool) {
	if happened {
		p.reached[call] = true
	}
}

// note keeps a call and its error for the report of a failure.
func (p *player) note(call string, err error, args ...any) {
	p.reach(call, err == nil)
	for _, o := range outcomes {
		p.reach(call+", "+o.Error(), errors.Is(err, o))
	}
	p.log = append(p.log, fmt.Sprintf("%3d %s %s: %v", len(p.log), call, fmt.Sprint(args...), err))
}

// owner is one of the three.
func (p *player) owner() uuid.UUID { return p.owners[p.tape.pick(len(p.owners))] }

// sessionID is one of three: there are few, so that they are deleted and created again, and one is
// used more than the others, so that much comes together in it.
func (p *player) sessionID() uuid.UUID {
	return uuid.UUID{6: 0x40, 8: 0x80, 15: []byte{1, 1, 1, 1, 2, 3}[p.tape.pick(6)]}
}

// lease is one that never runs out in the moment of a call: nobody says what holds then.
func (p *player) lease() time.Duration {
	return []time.Duration{lease + time.Second/2, time.Minute + time.Second/2}[p.tape.pick(2)]
}

// fence is mostly the fence of a run as it is, else an older one or one that is nearly right.
func (p *player) fence() (store.Fence, *modelRun) {
	r, ok := choose(p.tape, p.model.runs)
	if !ok {
		return store.Fence{Tenant: tenant, Run: p.tape.id(), Owner: p.owner(), Epoch: 1}, nil
	}
	f := r.record.Fence()
	switch p.tape.pick(16) {
	case 10, 11:
		f, _ = choose(p.tape, p.fences)
		r = p.model.run(f.Run)
	case 12:
		f.Epoch--
	case 13:
		f.Epoch++
	case 14:
		f.Owner = p.owner()
	case 15:
		f.Owner = uuid.Nil
	}
	return f, r
}

// given notes a fence that a call gave out.
func (p *player) given(f store.Fence) {
	if !slices.Contains(p.fences, f) {
		p.fences = append(p.fences, f)
	}
}

// refused requires that a call which must be refused was, for one of the reasons, and that one
// which must not be was not.
func (p *player) refused(err error, reasons ...error) bool {
	if len(reasons) == 0 {
		require.NoError(p, err)
		return false
	}
	for _, r := range reasons {
		if !errors.Is(err, r) && !sameNotFound(err, r) {
			continue
		}
		return true
	}
	require.Fail(p, "wrong answer", "want an error that is one of %v, got: %v", reasons, err)
	return true
}

// sameNotFound reports whether err says that the same thing is missing, or busy in the same way.
func sameNotFound(err, want error) bool {
	switch want := want.(type) {
	case *store.NotFoundError:
		got, ok := errors.AsType[*store.NotFoundError](err)
		return ok && *got == *want
	case *store.BusyError:
		got, ok := errors.AsType[*store.BusyError](err)
		return ok && *got == *want
	}
	return false
}

func missing(what store.Resource, id uuid.UUID) error {
	return &store.NotFoundError{Resource: what, ID: id}
}

// written checks the time of a write, and counts it as a use of the session.
func (p *player) written(s *modelSession, at time.Time) {
	now := p.clock.Now()
	require.False(p, at.Before(s.latest), "a created time before the one before it: %s, %s", at, s.latest)
	if now.Before(s.clock) {
		require.False(p, at.After(s.clock), "a created time that no clock ever showed: %s", at)
	} else {
		sameTime(p, now, at, "created")
	}
	s.latest = at
	p.seen(s)
}

// seen notes that a call for the session saw the clock.
func (p *player) seen(s *modelSession) {
	if now := p.clock.Now(); now.After(s.clock) {
		s.clock = now
	}
}
