package reflex_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// recordKinds are all that the books of the engine are made of.
var recordKinds = []string{
	"reflex.age", "reflex.batch", "reflex.batch.answered", "reflex.batch.open", "reflex.conversation", "reflex.delivery", "reflex.handoff",
	"reflex.hold", "reflex.owner", "reflex.receipt", "reflex.row", "reflex.surface", "reflex.surface.recent", "reflex.thread", "reflex.turn",
}

// kept counts the records of each kind.
func (b *bundle) kept() map[string]int {
	b.Helper()
	n := map[string]int{}
	for _, kind := range recordKinds {
		records, err := b.store.(store.Records).ListRecords(b.Context(), &store.RecordQuery{Tenant: "default", Kind: kind, Limit: 10_000})
		require.NoError(b, err)
		if len(records) > 0 {
			n[kind] = len(records)
		}
	}
	return n
}

// prune removes all that is older than an age, a little at a time.
func (b *bundle) prune(age time.Duration, limit int) (total int) {
	b.Helper()
	for {
		n, err := b.engine.Prune(b.Context(), reflex.Prune{Before: time.Now().Add(-age), Limit: limit})
		require.NoError(b, err)
		if total += n; n < limit {
			return total
		}
	}
}

const day = 24 * time.Hour

// busyDay fills the books with everything that there is.
func busyDay(t *testing.T, b *bundle) {
	t.Helper()
	a := &commander{fake: b.clerk, catalogue: reflex.Catalogue{Status: reflex.CommandDone, Commands: []reflex.CommandSpec{{Name: "status"}}}}
	a.do = func(context.Context, *reflex.CommandRequest) (reflex.CommandReply, error) {
		return reflex.CommandReply{Text: "all is well"}, nil
	}
	b.config.Agents = []reflex.Agent{a, b.coder}
	b.open()
	b.clerk.then(summons("coder"), replies("back"))
	b.coder.then(suspends(approval), summons("clerk"), replies("later"))
	batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
	_, err := b.kick(answer(batch, ada))
	require.NoError(t, err)
	b.clerk.then(moves(reflex.RelocateRequest{Channel: "desk", Hint: "off", Resume: true}), replies("here"))
	in := inbound("ada", "go")
	in.Delivery = "m1"
	_, err = b.engine.Say(t.Context(), thread("lobby", "t", "ada"), in)
	require.NoError(t, err)
	b.clerk.then(replies("ok"))
	b.said(group("lobby", "team", "ada"), "hi")
	for i := range 150 { // nobody asks the agent
		_, err := b.engine.Receive(t.Context(), group("lobby", "team", "bob"), inbound("bob", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	o, err := b.kick(reflex.CommandSignal{
		Conversation: b.clerk.last().Conversation.ID, Agent: "clerk", Profile: ada, Address: group("lobby", "team", "ada"),
		Command: reflex.Command{Name: "status"}, Delivery: "d1",
	})
	require.NoError(t, err)
	require.Equal(t, reflex.CommandDone, o.Command.Status)
	b.clerk.then(fails(context.DeadlineExceeded), replies("ok"))
	_, err = b.say(dm("lobby", "bob"), "hi")
	require.Error(t, err)
}

func TestOfWhatIsOldNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 7, 1000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := newBundle(t)
				busyDay(t, b)
				before := b.kept()
				for _, kind := range recordKinds {
					if kind != "reflex.batch.answered" && kind != "reflex.batch.open" {
						require.NotZero(t, before[kind], kind)
					}
				}
				require.Zero(t, b.prune(day, limit), "nothing is that old")
				require.Equal(t, before, b.kept())
				<-time.After(100 * day)
				total := b.prune(90*day, limit)
				require.Empty(t, b.kept())
				sum := 0
				for kind, n := range before {
					if kind != "reflex.age" && kind != "reflex.surface.recent" {
						sum += n
					}
				}
				require.Equal(t, sum, total)
				// And everything begins anew.
				b.clerk.then(replies("who are you?"))
				require.Equal(t, "who are you?", b.said(dm("lobby", "ada"), "hello").Text())
				require.Equal(t, int64(1), b.rows(dm("lobby", "ada"))[0].ID.Seq)
			})
		})
	}
}

func TestWhatIsInUseStaysAndWhatIsOldOfItGoes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBundle(t)
		owned, asking, quiet := dm("lobby", "ada"), thread("lobby", "asking", "ada"), thread("lobby", "quiet", "ada")
		b.clerk.then(summons("coder"), suspends(approval), replies("ok"))
		b.coder.then(replies("mine"))
		b.said(owned, "go")
		batch := b.batch(b.said(asking, "pay").Batch)
		b.said(quiet, "hi")
		b.clerk.then(suspends(approval))
		late := b.batch(b.said(dm("lobby", "bob"), "pay").Batch)
		b.clerk.then(replies("ok"))
		<-time.After(80 * day)
		b.said(owned, "still there?")
		_, err := b.kick(answer(late, bob))
		require.NoError(t, err)
		<-time.After(20 * day)
		b.prune(90*day, 10)
		require.Equal(t, []string{"inbound Ada: still there?", "outbound coder: mine"}, b.told(owned), "the old rows went")
		require.Equal(t, []string{"coder"}, b.owners(owned), "who owns it stays")
		b.said(owned, "and now?")
		require.Equal(t, "<recap>", promptOf(b.coder.last())[:7])
		require.Empty(t, b.rows(quiet))
		require.Empty(t, b.owners(quiet))
		require.Empty(t, b.rows(asking))
		_, err = b.engine.Books().Conversations.Conversation(t.Context(), late.Conversation)
		require.NoError(t, err, "it began long ago, and was used since")
		require.Equal(t, reflex.BatchPending, b.batch(batch.ID).Status, "what is asked stays")
		o, err := b.kick(answer(batch, ada))
		require.NoError(t, err)
		require.Equal(t, "ok", o.Text())
		require.Equal(t, batch.Conversation, b.clerk.last().Conversation.ID)
		<-time.After(100 * day)
		b.prune(90*day, 10)
		require.Empty(t, b.kept(), "in the end all of it went")
	})
}

func TestAPassUnderWayKeepsItsSurface(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBundle(t)
		b.clerk.then(pauses(approval))
		batches, done := live(t, b, dm("lobby", "ada"), 1)
		<-time.After(time.Hour)
		// Another surface that the pass has landed on, and in which no turn has begun yet.
		landed := thread("lobby", "landed", "ada")
		_, err := b.engine.Receive(t.Context(), landed, inbound("ada", "hi"))
		require.NoError(t, err)
		ours, err := b.engine.Books().Surfaces.Claim(t.Context(), landed.ID(), batches[0].Kick)
		require.NoError(t, err)
		require.True(t, ours)
		<-time.After(time.Hour)
		b.prune(time.Minute, 10)
		require.NotZero(t, b.kept()["reflex.conversation"])
		_, err = b.engine.Books().Threads.Thread(t.Context(), landed.ID())
		require.NoError(t, err)
		_, err = b.kick(answer(batches[0], ada))
		require.NoError(t, err)
		require.Equal(t, reflex.OutcomeResult, (<-done).Kind)
	})
}

func TestAPruneOfTheFutureIsRefused(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	_, err := b.engine.Prune(t.Context(), reflex.Prune{Before: time.Now().Add(time.Hour)})
	require.ErrorContains(t, err, "future")
}

func TestNothingNewIsLostWhileOldRowsGo(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := group("lobby", "team", "bob")
	const n = 60
	var all sync.WaitGroup
	for writer := range 2 {
		all.Go(func() {
			for i := range n {
				in := inbound("bob", fmt.Sprint(writer, i))
				if i%2 == 0 {
					in.At = time.Now().Add(-100 * day)
				}
				in.Delivery = fmt.Sprint(writer, "-", i)
				if _, err := b.engine.Receive(t.Context(), at, in); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range n {
			if _, err := b.engine.Prune(t.Context(), reflex.Prune{Before: time.Now().Add(-90 * day), Limit: 5}); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	recent := 0
	rows, err := b.engine.Books().Ledger.Rows(t.Context(), reflex.RowQuery{Surface: at.ID(), Limit: 1000})
	require.NoError(t, err)
	for _, r := range rows {
		if time.Since(r.At) < day {
			recent++
		}
	}
	require.Equal(t, n, recent)
	listed, err := b.engine.Books().Ledger.Surfaces(t.Context(), reflex.SurfaceQuery{})
	require.NoError(t, err)
	require.Len(t, listed, 1)
}

func TestSurfacesAreListedByWhenThingsHappenedThere(t *testing.T) {
	t.Parallel()
	books := reflex.NewBooks(memory.New(nil), "t", alive, nil)
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, r := range []struct {
		on string
		at time.Duration
	}{{"a", 1}, {"b", 2}, {"c", 3}, {"a", 10}, {"d", 4}, {"c", 2}} { // the last one was delivered late
		_, err := books.Ledger.Append(t.Context(), reflex.Row{ID: reflex.RowID{Surface: r.on}, At: began.Add(r.at * time.Hour)})
		require.NoError(t, err)
	}
	var ids []string
	for q := (reflex.SurfaceQuery{Limit: 3}); ; {
		page, err := books.Ledger.Surfaces(t.Context(), q)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, s := range page {
			ids = append(ids, fmt.Sprint(s.ID, s.Last, " ", s.At.Sub(began).Hours()))
			q.After = s
		}
	}
	require.Equal(t, []string{"a2 10", "d1 4", "c2 3", "b1 2"}, ids)
}
