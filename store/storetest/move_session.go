package storetest

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// newSession adds a session to the model. Its base is learned from the store.
func (p *player) newSession(id uuid.UUID) *modelSession {
	now := p.clock.Now()
	s := &modelSession{latest: now, clock: now, record: store.Session{Tenant: tenant, ID: id, CreatedAt: now, UpdatedAt: now}}
	p.model.sessions = append(p.model.sessions, s)
	return s
}

func (p *player) createSession() {
	id := p.sessionID()
	got, err := p.store.CreateSession(p.ctx, tenant, id)
	p.note("CreateSession", err, " ", id)
	if p.model.session(id) != nil {
		p.refused(err, store.ErrExists)
		return
	}
	require.NoError(p, err)
	s := p.newSession(id)
	s.record.Base, s.bases = got.Base, []int64{got.Base}
	require.Equal(p, s.record, *got)
}

func (p *player) deleteSession() {
	id := p.sessionID()
	err := p.store.DeleteSession(p.ctx, tenant, id)
	p.note("DeleteSession", err, " ", id)
	s := p.model.session(id)
	if s == nil {
		p.refused(err, missing(store.SessionResource, id))
		return
	}
	require.NoError(p, err)
	p.gone(s)
}

// gone drops a session and makes sure that none of it can be found.
func (p *player) gone(s *modelSession) {
	p.model.drop(s)
	_, err := p.store.Session(p.ctx, tenant, s.record.ID)
	p.notFound(err, store.SessionResource, s.record.ID)
	for _, r := range s.runs {
		_, err := p.store.Run(p.ctx, tenant, r.record.ID)
		p.notFound(err, store.RunResource, r.record.ID)
	}
	for _, c := range s.checkpoints {
		_, err := p.store.Checkpoint(p.ctx, tenant, c.record.ID)
		p.notFound(err, store.CheckpointResource, c.record.ID)
	}
	for _, v := range s.messages {
		if _, other := p.model.newest(v.record.ID); other == nil {
			_, err := p.store.Message(p.ctx, tenant, v.record.ID)
			p.notFound(err, store.MessageResource, v.record.ID)
		}
	}
}

// prune removes the sessions that nobody used since some time. Which of them it takes under a limit
// is the driver's.
func (p *player) prune() {
	call := &store.Prune{Tenant: []string{tenant, ""}[p.tape.pick(2)], Limit: 1 + p.tape.pick(3)}
	call.Before = p.clock.Now().Add(-time.Duration(p.tape.pick(4)) * 10 * time.Second)
	n, err := p.store.Prune(p.ctx, call)
	p.note("Prune", err, " before ", call.Before, " limit ", call.Limit, " removed ", n)
	require.NoError(p, err)
	p.reach("Prune, some", n > 0)
	require.LessOrEqual(p, n, call.Limit)
	for _, s := range slices.Clone(p.model.sessions) {
		running := slices.ContainsFunc(s.runs, (*modelRun).alive)
		_, err := p.store.Session(p.ctx, tenant, s.record.ID)
		if err != nil {
			require.False(p, running, "a session was pruned in which a run goes on")
			require.True(p, s.latest.Before(call.Before), "a session was pruned that was used at %s", s.latest)
			p.gone(s)
			n--
			continue
		}
		// When the clock went back, a use may have counted by either reading.
		p.reach("Prune, only a waiting run", s.active == nil && len(s.waiting) > 0 && s.clock.Before(call.Before))
		old := s.latest.Before(call.Before) && s.clock.Before(call.Before)
		require.False(p, old && !running && call.Limit == 3, "a session was left that was used at %s", s.latest)
	}
	require.Zero(p, n, "sessions that were counted and are still there")
}

// createMessage adds a message outside runs, rarely one of an id that another session has.
func (p *player) createMessage() {
	id := p.sessionID()
	s := p.model.session(id)
	m := say("outside")
	m.ID, m.SessionID = p.tape.id(), id
	var known *modelMessage
	if p.tape.rarely(4) {
		known = p.anyMessage()
	}
	if known != nil && known.record.CreatedAt.Before(p.clock.Now()) {
		m.ID = known.record.ID // created later than the other, so that it is known which is the newest
	}
	got, err := p.store.CreateMessage(p.ctx, tenant, &m)
	p.note("CreateMessage", err, " ", m.ID, " in ", id)
	switch {
	case s == nil:
		p.refused(err, missing(store.SessionResource, id))
		return
	case slices.ContainsFunc(s.messages, func(o *modelMessage) bool { return o.record.ID == m.ID }):
		p.refused(err, store.ErrExists)
		return
	}
	require.NoError(p, err)
	p.written(s, got.CreatedAt)
	require.Greater(p, got.Seq, s.seq, "the message's sequence was given before")
	m.Seq, m.CreatedAt, m.Line = got.Seq, got.CreatedAt, checkpoint.Base
	require.Equal(p, m, *got)
	s.messages = append(s.messages, &modelMessage{record: m})
	s.seq = got.Seq
	p.rebased(s)
}

func (p *player) anyMessage() *modelMessage {
	var all []*modelMessage
	for _, s := range p.model.sessions {
		all = append(all, s.messages...)
	}
	m, _ := choose(p.tape, all)
	return m
}

// rebased learns the base that a change of messages gave to a session.
func (p *player) rebased(s *modelSession) {
	got := p.bundle.session(s.record.ID)
	require.NotContains(p, s.bases, got.Base, "a base that the session had before")
	s.record.Base, s.bases = got.Base, append(s.bases, got.Base)
}

func (p *player) deleteMessage() {
	id := p.tape.id()
	if m := p.anyMessage(); m != nil {
		id = m.record.ID
	}
	s, m := p.model.newest(id)
	err := p.store.DeleteMessage(p.ctx, tenant, id)
	p.note("DeleteMessage", err, " ", id)
	if m == nil {
		p.refused(err, missing(store.MessageResource, id))
		return
	}
	require.NoError(p, err)
	s.messages = slices.DeleteFunc(s.messages, func(o *modelMessage) bool { return o == m })
	if now := p.clock.Now(); now.After(s.latest) {
		s.latest = now // to delete from a session is to use it
	}
	p.seen(s)
	p.rebased(s)
}

// moveClock moves the clock, rarely back. Leases end half a second beside every time it shows.
func (p *player) moveClock() {
	d := []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, 90 * time.Second, -3 * time.Second}[p.tape.pick(5)]
	p.reach("the clock goes back", d < 0)
	p.log = append(p.log, "    the clock moves by "+d.String()+" to "+p.clock.move(d).String())
}

func (p *player) reopenStore() {
	p.log = append(p.log, "    the store is opened again")
	p.reopen()
}
