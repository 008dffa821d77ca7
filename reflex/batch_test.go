package reflex_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store/memory"
)

func TestARunThatAsksEndsSuspendedAndGoesOnWithTheAnswersAfterARestart(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	room := dm("lobby", "ada")
	b.clerk.then(suspends(approval, question), replies("thank you"))
	o := b.said(room, "pay")
	require.Equal(t, reflex.OutcomeSuspended, o.Kind)
	require.Equal(t, []reflex.DeferredCall{approval, question}, o.Requests)
	batch := b.batch(o.Batch)
	require.Equal(t, reflex.BatchPending, batch.Status)
	require.Len(t, batch.Actions, 3, "one for the approval, one for each question")
	events := b.heard()
	require.Equal(t, "reflex_awake run_started text_message_content action_batch run_ended reflex_asleep", kinds(events))
	asked, _ := find[reflex.BatchAsked](t, events)
	require.Equal(t, batch.Actions, asked.Actions)
	first := b.clerk.last()

	b.open() // another process
	// A part of the answers keeps it waiting, and no run begins.
	part := reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{Batch: batch.ID, Responder: ada, Answers: map[string]string{batch.Actions[1].ID: "red"}}}
	o, err := b.kick(part)
	require.NoError(t, err)
	require.Equal(t, reflex.OutcomeSuspended, o.Kind)
	require.Equal(t, batch.ID, o.Batch)
	require.Equal(t, "reflex_awake reflex_asleep", kinds(b.heard()))

	o, err = b.kick(answer(batch, desk)) // the same person, on another account
	require.NoError(t, err)
	require.Equal(t, "thank you", o.Text())
	require.Equal(t, []string{"awake", "resume_deferred", "react"}, o.Path)
	require.Equal(t, "resume", o.RunName)
	r := b.clerk.last()
	require.Empty(t, r.Prompt)
	require.Equal(t, []string{"red", "answer 2"}, r.Results["ask"].Answers, "the first answer wins")
	require.True(t, r.Results["pay"].Approved)
	require.Equal(t, first.Thread.ID, r.Thread.ID, "in the thread that it ran in")
	require.Equal(t, first.Conversation.ID, r.Conversation.ID)
	require.Equal(t, "u-ada", r.Profile.User, "for the person whose turn it was")
	require.Equal(t, reflex.BatchCompleted, b.batch(batch.ID).Status)
	require.Equal(t, "reflex_awake action_batch_answered run_started text_message_content run_result run_ended reflex_asleep", kinds(b.heard()))

	o, err = b.kick(answer(batch, ada))
	require.NoError(t, err)
	require.Equal(t, reflex.OutcomeResult, o.Kind)
	require.Equal(t, []string{"awake", "resume_deferred"}, o.Path, "it was resumed before")
	require.Len(t, b.clerk.requests(), 2)
	require.Empty(t, open(t, b))
}

func open(t *testing.T, b *bundle) []reflex.Batch {
	all, err := b.engine.Books().Batches.Open(t.Context(), "")
	require.NoError(t, err)
	return all
}

func TestAnAnswerThatIsNotOneToTheBatchStoresNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(suspends(approval, question), replies("ok"))
	batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
	pay, ask := batch.Actions[0].ID, batch.Actions[1].ID
	for _, tt := range []struct {
		name string
		a    reflex.BatchAnswer
		want error
	}{
		{"unknown action", reflex.BatchAnswer{Responder: ada, Answers: map[string]string{"x": "y", ask: "red"}}, reflex.ErrUnknownAction},
		{"answer to an approval", reflex.BatchAnswer{Responder: ada, Answers: map[string]string{pay: "yes"}}, reflex.ErrUnknownAction},
		{"verdict on a question", reflex.BatchAnswer{Responder: ada, Verdicts: map[string]reflex.Verdict{ask: {}, pay: {Approved: true}}}, reflex.ErrUnknownAction},
		{"somebody else", reflex.BatchAnswer{Responder: bob, Verdicts: map[string]reflex.Verdict{pay: {Approved: true}}}, reflex.ErrNotAllowed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.a.Batch = batch.ID
			_, err := b.kick(reflex.BatchSignal{BatchAnswer: tt.a})
			require.ErrorIs(t, err, tt.want)
			require.Equal(t, batch.Actions, b.batch(batch.ID).Actions)
		})
	}
}

// Invariant 10.
func TestABatchIsResumedAtMostOnce(t *testing.T) {
	t.Parallel()
	t.Run("of many that claim it one has it", func(t *testing.T) {
		t.Parallel()
		books := reflex.NewBooks(memory.New(nil), "t", alive, nil)
		require.NoError(t, books.Batches.Create(t.Context(), reflex.Batch{ID: "b", Mode: reflex.Resume, Status: reflex.BatchResolved}))
		var all sync.WaitGroup
		won := make(chan uuid.UUID, 16)
		for range cap(won) {
			all.Go(func() {
				kick := uuid.New()
				if _, ours, err := books.Batches.Claim(t.Context(), "b", kick); err != nil {
					t.Error(err)
				} else if ours {
					won <- kick
				}
			})
		}
		all.Wait()
		require.Len(t, won, 1)
		kick := <-won
		require.NoError(t, books.Batches.Complete(t.Context(), "b", uuid.New()), "which does nothing")
		b, err := books.Batches.Batch(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, reflex.BatchResuming, b.Status)
		require.NoError(t, books.Batches.Complete(t.Context(), "b", kick))
		_, ours, err := books.Batches.Claim(t.Context(), "b", kick)
		require.NoError(t, err)
		require.False(t, ours, "it is completed")
	})
	t.Run("of many answers at once one resumes the run", func(t *testing.T) {
		t.Parallel()
		b := newBundle(t)
		b.clerk.then(suspends(approval), replies("ok"))
		batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
		processes := []*bundle{b, b.other(), b.other()}
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				_, err := processes[i%3].kick(answer(batch, ada))
				if err != nil && !errors.Is(err, reflex.ErrBusy) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		runs := -1 // the one that asked
		for _, p := range processes {
			runs += len(p.clerk.requests())
		}
		require.Equal(t, 1, runs)
		require.Equal(t, reflex.BatchCompleted, b.batch(batch.ID).Status)
		require.Equal(t, 1, b.batch(batch.ID).Attempts)
	})
}

func TestABatchOfAPassThatIsOverIsResumedByAnother(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(suspends(approval), replies("ok"))
	batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
	batches := b.engine.Books().Batches
	_, err := batches.Answer(t.Context(), answer(batch, ada).BatchAnswer)
	require.NoError(t, err)
	_, ours, err := batches.Claim(t.Context(), batch.ID, uuid.New())
	require.NoError(t, err)
	require.True(t, ours)
	require.Equal(t, reflex.BatchResuming, b.batch(batch.ID).Status)
	// The pass of the claim does not exist, so the batch is an orphan and goes back.
	require.NoError(t, b.engine.Recover(t.Context()))
	require.Equal(t, reflex.BatchResolved, b.batch(batch.ID).Status)
	o, err := b.kick(reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{Batch: batch.ID}})
	require.NoError(t, err)
	require.Equal(t, "ok", o.Text(), "the batch's id alone goes on with what was answered")
	require.Len(t, b.clerk.requests(), 2)
}

func TestABatchHasAllThatIsNeededToGoOn(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(summons("coder"))
	described := approval
	described.Description, described.Arguments, described.Metadata = "To the baker", json.RawMessage(`{"to":"baker"}`), json.RawMessage(`{"risk":"low"}`)
	b.coder.then(suspends(described, question), replies("ok"))
	at := dm("lobby", "ada")
	o := b.said(at, "pay")
	batch := b.batch(o.Batch)
	r := b.coder.last()
	require.Equal(t, r.Conversation.ID, batch.Conversation)
	require.Equal(t, r.Thread.ID, batch.Thread)
	require.Equal(t, at.ID(), batch.Surface)
	require.Equal(t, reflex.Place{Address: at, Mode: reflex.Main}, batch.Source)
	require.Equal(t, reflex.Place{Address: at, Mode: reflex.Main}, batch.Target)
	require.Equal(t, "coder", batch.Agent)
	require.Equal(t, "small", batch.Decision.Model)
	require.Equal(t, reflex.Resume, batch.Mode)
	require.Equal(t, "summon", batch.RunName)
	require.Equal(t, []reflex.DeferredCall{described, question}, batch.Calls)
	require.Equal(t, o.Kick, batch.Kick)
	pay := batch.Actions[0]
	require.Equal(t, "Pay? To the baker pay", pay.Title+" "+pay.Description+" "+pay.Tool)
	require.Equal(t, []int{0, 1}, []int{batch.Actions[1].Position, batch.Actions[2].Position})
	s := answer(batch, ada)
	s.Verdicts[pay.ID] = reflex.Verdict{Approved: true, ForSession: true}
	_, err := b.kick(s)
	require.NoError(t, err)
	require.JSONEq(t, `{"for_session":true}`, string(b.coder.last().Results["pay"].Metadata), "the flag goes with the result")
	require.Equal(t, ada, b.batch(batch.ID).Actions[0].Responder)
	require.NotZero(t, b.batch(batch.ID).Actions[0].ResolvedAt)
}

func TestABatchThatAPassResumesIsNobodyElses(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	var batch reflex.Batch
	b.clerk.then(suspends(approval), func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		batches := b.engine.Books().Batches
		_, ours, err := batches.Claim(ctx, batch.ID, uuid.New())
		require.NoError(t, err)
		require.False(t, ours)
		_, again, err := batches.Claim(ctx, batch.ID, r.Kick)
		require.NoError(t, err)
		require.True(t, again, "but the pass's own, also when it does the step again")
		require.NoError(t, b.engine.Recover(ctx))
		require.Equal(t, reflex.BatchResuming, b.batch(batch.ID).Status)
		return reflex.RunResult{}, nil
	})
	batch = b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
	_, err := b.kick(answer(batch, ada))
	require.NoError(t, err)
	require.Equal(t, 1, b.batch(batch.ID).Attempts)
}

func TestARunThatFailsToResumeMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(suspends(approval), fails(context.DeadlineExceeded), suspends(question), replies("ok"))
	batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
	_, err := b.kick(answer(batch, ada))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, reflex.BatchResolved, b.batch(batch.ID).Status)
	o, err := b.kick(reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{Batch: batch.ID}})
	require.NoError(t, err)
	require.Equal(t, reflex.OutcomeSuspended, o.Kind, "it asks something else")
	require.Equal(t, reflex.BatchCompleted, b.batch(batch.ID).Status, "and is done with the first")
	require.Equal(t, 2, b.batch(batch.ID).Attempts)
	require.NotEqual(t, batch.ID, o.Batch)
}

func TestANewPromptTakesThePlaceOfWhatWasAsked(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := thread("lobby", "t", "ada")
	b.clerk.then(suspends(approval), replies("never mind"))
	batch := b.batch(b.said(at, "pay").Batch)
	b.heard()
	require.Equal(t, "never mind", b.said(at, "forget it").Text())
	require.Equal(t, reflex.BatchExpired, b.batch(batch.ID).Status)
	closed, _ := find[reflex.BatchAnswered](t, b.heard())
	require.Equal(t, reflex.ActionExpired, closed.Actions[0].Status)
	_, err := b.kick(answer(batch, ada))
	require.ErrorIs(t, err, reflex.ErrExpired)
}

func TestABatchExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *reflex.Config) { c.BatchLife = time.Hour })
		b.clerk.then(suspends(approval))
		batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
		other := b.batch(b.said(dm("lobby", "bob"), "pay").Batch)
		time.Sleep(time.Hour)
		_, err := b.kick(answer(batch, ada))
		require.ErrorIs(t, err, reflex.ErrExpired)
		require.NoError(t, b.engine.Recover(t.Context()))
		require.Equal(t, reflex.BatchExpired, b.batch(batch.ID).Status)
		require.Equal(t, reflex.BatchExpired, b.batch(other.ID).Status)
		require.Empty(t, open(t, b))
	})
}

func TestCallsThatNobodyCouldAnswerFailTheRun(t *testing.T) {
	t.Parallel()
	four := reflex.DeferredCall{ID: "q", Kind: reflex.QuestionCall, Questions: []reflex.QuestionText{{Text: "?", Choices: []string{"a", "b", "c", "d"}}}}
	move := reflex.DeferredCall{ID: "m", Kind: reflex.MoveCall, Move: &reflex.RelocateRequest{}}
	for name, tt := range map[string]struct {
		calls []reflex.DeferredCall
		want  error
	}{
		"none":         {nil, reflex.ErrInvariant},
		"no question":  {[]reflex.DeferredCall{{ID: "q", Kind: reflex.QuestionCall}}, reflex.ErrInvariant},
		"four choices": {[]reflex.DeferredCall{four}, reflex.ErrInvariant},
		"unknown kind": {[]reflex.DeferredCall{{ID: "q", Kind: "dance"}}, reflex.ErrInvariant},
		"one id twice": {[]reflex.DeferredCall{approval, approval}, reflex.ErrInvariant},
		"mixed move":   {[]reflex.DeferredCall{approval, move}, reflex.ErrMixedTeleport},
		"move nowhere": {[]reflex.DeferredCall{{ID: "m", Kind: reflex.MoveCall}}, reflex.ErrInvariant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.clerk.then(suspends(tt.calls...))
			_, err := b.say(dm("lobby", "ada"), "go")
			require.ErrorIs(t, err, tt.want)
			require.Empty(t, open(t, b))
		})
	}
}

func TestACardIsMarkedAndAnUnknownOneIsNot(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(suspends(approval))
	batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
	batches := b.engine.Books().Batches
	require.NoError(t, batches.MarkPresented(t.Context(), batch.ID, "none", "x"))
	require.NoError(t, batches.MarkPresented(t.Context(), batch.ID, batch.Actions[0].ID, "card-1"))
	require.Equal(t, "card-1", b.batch(batch.ID).Actions[0].Handle)
}

func TestABatchWhoseConversationIsGoneIsOrphaned(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(suspends(approval))
	batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
	require.NoError(t, b.engine.Books().Conversations.Delete(t.Context(), batch.Conversation))
	_, err := b.kick(answer(batch, ada))
	require.ErrorIs(t, err, reflex.ErrBatchOrphaned)
	require.Len(t, b.clerk.requests(), 1)
}
