package storetest

import (
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/store"
)

// claim takes over what has no owner that lives.
func (p *player) claim() {
	c := &store.Claim{Owner: p.owner(), Graphs: []string{"graph", "other"}, Lease: p.lease(), Limit: 1 + p.tape.pick(4)}
	if p.tape.rarely(4) {
		c.Graphs = c.Graphs[:1]
	}
	if r, ok := choose(p.tape, p.model.runs); ok && p.tape.rarely(4) {
		c.Except = []uuid.UUID{r.record.ID}
	}
	now := p.clock.Now()
	free := map[uuid.UUID]*modelRun{}
	for _, r := range p.model.runs {
		if r.alive() && (r.released || r.record.LeaseUntil.Before(now)) &&
			slices.Contains(c.Graphs, r.record.Graph) && !slices.Contains(c.Except, r.record.ID) {
			free[r.record.ID] = r
		}
	}
	got, err := p.store.Claim(p.ctx, c)
	p.note("Claim", err, " by ", c.Owner, " limit ", c.Limit, " got ", len(got))

	p.reach("Claim, some", len(got) > 0)
	p.reach("Claim, limited", len(free) > c.Limit)
	require.NoError(p, err)
	require.Len(p, got, min(c.Limit, len(free)), "runs that can be taken over: %d", len(free))
	for i := range got {
		r := free[got[i].ID]
		require.NotNil(p, r, "run %s was taken over", got[i].ID)
		delete(free, got[i].ID)
		for _, left := range free {
			if i < len(got)-1 && !slices.ContainsFunc(got[i:], func(g store.Run) bool { return g.ID == left.record.ID }) {
				continue // judged with the last one taken
			}
			require.False(p, left.record.CreatedAt.Before(r.record.CreatedAt), "an older run comes later or was left")
		}
		r.record.Owner, r.record.LeaseUntil, r.released = c.Owner, now.Add(c.Lease), false
		r.record.Epoch++
		r.record.Takeovers++
		p.given(r.record.Fence())
		p.sameRun(r, &got[i])
		p.seen(r.session)
	}
}

// renew renews up to three leases.
func (p *player) renew() {
	call := &store.Renew{Lease: p.lease()}
	var lost, cancels []uuid.UUID
	until := p.clock.Now().Add(call.Lease)
	var renewed []*modelRun
	for range 1 + p.tape.pick(3) {
		f, r := p.fence()
		if slices.ContainsFunc(call.Fences, func(o store.Fence) bool { return o.Run == f.Run }) {
			continue
		}
		call.Fences = append(call.Fences, f)
		if r == nil || !r.holds(f) {
			lost = append(lost, f.Run)
			continue
		}
		renewed = append(renewed, r)
		if r.record.CancelRequested {
			cancels = append(cancels, f.Run)
		}
	}
	got, err := p.store.Renew(p.ctx, call)
	p.note("Renew", err, call.Fences)

	require.NoError(p, err)
	require.ElementsMatch(p, lost, got.Lost, "lost")
	require.ElementsMatch(p, cancels, got.Cancels, "cancels")
	p.reach("Renew, lost", len(lost) > 0)
	p.reach("Renew, cancels", len(cancels) > 0)
	p.reach("Renew, held", len(renewed) > 0)
	for _, r := range renewed {
		r.record.LeaseUntil = until
		p.seen(r.session)
	}
}

// release gives a run up.
func (p *player) release() {
	f, r := p.fence()
	err := p.store.Release(p.ctx, f)
	p.note("Release", err, " ", f)

	var reasons []error
	switch {
	case r == nil || r.session == nil:
		reasons = []error{missing(store.RunResource, f.Run)}
	case !r.holds(f):
		reasons = []error{store.ErrLost}
	}
	if p.refused(err, reasons...) {
		return
	}
	r.record.Owner, r.record.Attached, r.released = uuid.Nil, false, true
	r.record.Takeovers = max(r.record.Takeovers-1, 0)
	p.seen(r.session)
}
