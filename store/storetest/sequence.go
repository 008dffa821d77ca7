package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var sequenceScenarios = []scenario{
	{"sequence-order", "Sequences ascend: a run's own, then each step's messages and its checkpoint.", sequenceOrder},
	{"sequence-concurrent", "Concurrent writers never get the same sequence, and each gets ascending ones.", sequenceConcurrent},
	{"sequence-never-again", "A sequence is never given twice, also after deletions.", sequenceNeverAgain},
	{"sequence-per-session", "Each session has its own sequences.", sequencePerSession},
	{"sequence-clock-back", "Created times never decrease along the sequences, even when the clock does.", sequenceClockBack},
	{"sequence-one-time", "Everything in one write has one created time.", sequenceOneTime},
}

func sequenceOrder(b *bundle) {
	session := b.newSession()
	seqs := []int64{}
	add := func(steps []store.Step) {
		for _, s := range steps {
			for _, m := range s.Messages {
				got, err := b.store.Message(b.ctx, tenant, m.ID)
				require.NoError(b, err)
				seqs = append(seqs, got.Seq)
			}
			seqs = append(seqs, b.checkpoint(s.Checkpoint.ID).Seq)
		}
	}
	steps := []store.Step{step("a", "b"), step(), step("c")}
	r := b.start(session, with(steps...))
	seqs = append(seqs, r.begun.Seq)
	add(steps)
	seqs = append(seqs, b.post(session, "d").Seq)
	b.reopen()
	steps = []store.Step{step("e"), step("f")}
	r.end(checkpoint.Completed, steps...)
	add(steps)
	seqs = append(seqs, b.start(session).begun.Seq)
	require.IsIncreasing(b, seqs)
	require.Positive(b, seqs[0])
}

// entry is a record of any kind with its place in the session.
type entry struct {
	seq int64
	at  time.Time
}

// entries returns all records of a session by sequence, which must be distinct.
func (b *bundle) entries(session uuid.UUID) []entry {
	b.Helper()
	all := map[int64]entry{}
	put := func(seq int64, at time.Time) {
		require.NotContains(b, all, seq, "a sequence that was given twice")
		all[seq] = entry{seq, at}
	}
	for m := range walkMessages(b, &store.MessageQuery{Tenant: tenant, Session: session}) {
		put(m.Seq, m.CreatedAt)
	}
	for c := range walkCheckpoints(b, &store.CheckpointQuery{Tenant: tenant, Session: session}) {
		put(c.Seq, c.CreatedAt)
	}
	for r := range walkRuns(b, &store.RunQuery{Tenant: tenant, Session: session}) {
		put(r.Seq, r.CreatedAt)
	}
	return sorted(all)
}

func sequenceConcurrent(b *bundle) {
	session := b.newSession()
	root := b.whole(session, step("root"))
	b.whole(session, step("head"))
	const writers, commits = 6, 15
	runs := make([]*run, writers)
	for i := range runs {
		runs[i] = b.start(session, from(root.at))
	}
	errs := make([]error, writers+1)
	seqs := make([][]int64, writers+1)
	var wg sync.WaitGroup
	for i, r := range runs {
		wg.Go(func() {
			for n := range commits {
				done, err := r.send(r.newCommit(checkpoint.Running, step(fmt.Sprint(i, ".", n), "second"), step()))
				if err != nil {
					errs[i] = err
					return
				}
				seqs[i] = append(seqs[i], done.Seqs...)
			}
		})
	}
	wg.Go(func() {
		for range commits {
			m := say("posted")
			m.SessionID = session
			got, err := b.store.CreateMessage(b.ctx, tenant, &m)
			if err != nil {
				errs[writers] = err
				return
			}
			seqs[writers] = append(seqs[writers], got.Seq)
		}
	})
	wg.Wait()
	for i, err := range errs {
		require.NoError(b, err)
		require.IsIncreasing(b, seqs[i])
	}
	all := b.entries(session)
	require.Len(b, all, (2+2+2)+writers*(1+4*commits)+commits)
	for i, r := range runs {
		want := []string{"root"}
		for n := range commits {
			want = append(want, fmt.Sprint(i, ".", n), "second")
		}
		got := []string{}
		for _, text := range b.historyAt(session, r.at) {
			if text != "posted" {
				got = append(got, text)
			}
		}
		require.Equal(b, want, got)
	}
}

func sequenceNeverAgain(b *bundle) {
	session := b.newSession()
	b.whole(session, step("one"))
	m := b.post(session, "last")
	require.NoError(b, b.store.DeleteMessage(b.ctx, tenant, m.ID))
	b.reopen()
	require.Greater(b, b.post(session, "next").Seq, m.Seq)
}

func sequencePerSession(b *bundle) {
	one, other := b.newSession(), b.newSession()
	for range 5 {
		b.post(one, "filler")
	}
	require.Equal(b, b.start(uuid.New()).begun.Seq, b.start(other).begun.Seq)
}

func sequenceClockBack(b *bundle) {
	session := b.newSession()
	b.tick()
	r := b.start(session, with(step("one")))
	for _, d := range []time.Duration{-time.Hour, time.Minute, -time.Hour} {
		b.clock.move(d)
		b.post(session, "posted")
		r.commit(step("more"))
	}
	b.reopen()
	r.end(checkpoint.Completed, step())
	b.whole(session, step("two"))
	b.clock.move(24 * time.Hour)
	b.whole(session, step("three"))
	all := b.entries(session)
	for i := 1; i < len(all); i++ {
		require.False(b, all[i].at.Before(all[i-1].at), "entry %d: %s before %s", i, all[i].at, all[i-1].at)
	}
	require.True(b, all[len(all)-1].at.After(all[0].at), "once the clock is ahead again it counts")
}

func sequenceOneTime(b *bundle) {
	session := b.newSession()
	steps := []store.Step{step("a", "b"), step("c")}
	for range 2 {
		b.tick()
		r := b.start(session, with(steps...))
		for _, e := range b.entries(session) {
			if e.seq >= r.begun.Seq {
				sameTime(b, r.begun.CreatedAt, e.at, "created")
				sameTime(b, b.clock.Now(), e.at, "created")
			}
		}
		r.end(checkpoint.Completed)
		steps = []store.Step{step("d"), step("e")}
	}
}
