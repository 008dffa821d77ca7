package reflex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// ResponseMode says how the answers of a batch get back.
type ResponseMode string

const (
	Live   ResponseMode = "live"   // the run is alive and waits in its process
	Resume ResponseMode = "resume" // the run has ended; the answers start another pass
)

// BatchStatus says where a batch is in its life. A live batch stops at resolved, and is then delivered.
type BatchStatus string

const (
	BatchPending   BatchStatus = "pending"
	BatchResolved  BatchStatus = "resolved"  // all is answered
	BatchResuming  BatchStatus = "resuming"  // a pass brings the answers to the agent
	BatchCompleted BatchStatus = "completed" // it did
	BatchExpired   BatchStatus = "expired"   // it can no longer be answered
)

// ActionStatus says what became of one action.
type ActionStatus string

const (
	ActionPending  ActionStatus = "pending"
	ActionAnswered ActionStatus = "answered"
	ActionApproved ActionStatus = "approved"
	ActionDenied   ActionStatus = "denied"
	ActionExpired  ActionStatus = "expired"
)

// Action is one thing that people are asked: an approval, or one question of a call.
type Action struct {
	ID          string          `json:"id"`
	Kind        CallKind        `json:"kind"`
	Status      ActionStatus    `json:"status"`
	Call        string          `json:"call"`     // the id of the deferred call
	Position    int             `json:"position"` // among the questions of the call
	Tool        string          `json:"tool,omitempty"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Question    *QuestionText   `json:"question,omitempty"`
	Answer      string          `json:"answer,omitempty"` // or the reason of a denial
	ForSession  bool            `json:"for_session,omitempty"`
	Handle      string          `json:"handle,omitempty"` // the platform's id of its card
	Responder   Profile         `json:"responder,omitzero"`
	ResolvedAt  time.Time       `json:"resolved_at,omitzero"`
}

// Batch is what one run asks people, answered as a unit. The row alone is enough to go on.
type Batch struct {
	ID           string         `json:"id"`
	Conversation string         `json:"conversation"`
	Thread       string         `json:"thread"`
	Surface      string         `json:"surface"` // that a kick with answers is asked on
	Agent        string         `json:"agent"`
	Mode         ResponseMode   `json:"mode"`
	RunName      string         `json:"run_name"`
	Status       BatchStatus    `json:"status"`
	Source       Place          `json:"source"`
	Target       Place          `json:"target"`
	Decision     *Decision      `json:"decision,omitempty"`
	Asker        *Profile       `json:"asker,omitempty"` // whose turn it is
	Calls        []DeferredCall `json:"calls"`
	Actions      []Action       `json:"actions"`
	Kick         uuid.UUID      `json:"kick"` // that asked

	// Resumer is the pass that brings the answers to the agent, Attempts how many did.
	Resumer  uuid.UUID `json:"resumer,omitzero"`
	Attempts int       `json:"attempts,omitempty"`

	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
	// DeliveredAt is when the run that waits took the answers of a live batch.
	DeliveredAt time.Time `json:"delivered_at,omitzero"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
}

// Verdict decides an approval.
type Verdict struct {
	Approved   bool   `json:"approved"`
	Reason     string `json:"reason,omitempty"`
	ForSession bool   `json:"for_session,omitempty"` // further calls of this kind need no approval
}

// BatchAnswer is what a person answers, keyed by the ids of actions. It may be a part of it.
type BatchAnswer struct {
	Batch     string             `json:"batch"`
	Responder Profile            `json:"responder"`
	Answers   map[string]string  `json:"answers,omitempty"`
	Verdicts  map[string]Verdict `json:"verdicts,omitempty"`
}

// Results returns the answers as results of the calls.
func (b *Batch) Results() DeferredResults {
	results := DeferredResults{}
	for _, c := range b.Calls {
		r := DeferredResult{Kind: c.Kind, Metadata: c.Metadata, Answers: make([]string, len(c.Questions))}
		for _, a := range b.Actions {
			switch {
			case a.Call != c.ID:
			case a.Kind == QuestionCall:
				r.Answers[a.Position] = a.Answer
			default:
				r.Approved, r.Reason = a.Status == ActionApproved, a.Answer
				if a.ForSession {
					r.Metadata = json.RawMessage(`{"for_session":true}`)
				}
			}
		}
		results[c.ID] = r
	}
	return results
}

// actionsOf makes the actions of a batch: one for each approval and for each question.
func actionsOf(batch string, calls []DeferredCall) []Action {
	var actions []Action
	add := func(c DeferredCall, position int, q *QuestionText) {
		actions = append(actions, Action{
			ID: idOf("action", batch, c.ID, fmt.Sprint(position)).String(), Kind: c.Kind, Status: ActionPending,
			Call: c.ID, Position: position, Tool: c.Tool, Arguments: c.Arguments,
			Title: c.Title, Description: c.Description, Question: q,
		})
	}
	for _, c := range calls {
		if c.Kind == ApprovalCall {
			add(c, 0, nil)
		}
		for i := range c.Questions {
			add(c, i, &c.Questions[i])
		}
	}
	return actions
}

// Batches keeps batches. NewBooks has the implementation on store.Records.
type Batches interface {
	Create(ctx context.Context, b Batch) error
	// Batch returns a batch; ErrUnknownBatch if there is none.
	Batch(ctx context.Context, id string) (Batch, error)
	// Answer keeps what is answered for the first time and passes over the rest. It keeps nothing
	// and returns ErrUnknownAction if an action is not the batch's, or of the other kind, and
	// ErrExpired if the batch can no longer be answered.
	Answer(ctx context.Context, a BatchAnswer) (Batch, error)
	// Claim makes a resolved batch one that is resumed by a pass, and reports whether it is: false
	// if another pass does, or did.
	Claim(ctx context.Context, id string, kick uuid.UUID) (Batch, bool, error)
	// Complete ends a batch that the pass resumes, Release makes it resolved again. They do nothing
	// if the pass does not resume it.
	Complete(ctx context.Context, id string, kick uuid.UUID) error
	Release(ctx context.Context, id string, kick uuid.UUID) error
	// Answered returns the ids of the live batches that are answered, and whose runs have not taken
	// the answers yet.
	Answered(ctx context.Context) ([]string, error)
	// Deliver gives the answers of a live batch to the run that waits for them, and reports whether
	// it does: false if that was done before, or the batch has expired meanwhile.
	Deliver(ctx context.Context, id string) (Batch, bool, error)
	// Expire ends a batch that is pending, or live and not delivered, and reports whether it was.
	Expire(ctx context.Context, id string) (Batch, bool, error)
	// MarkPresented notes the platform's id of a card; nothing happens to an unknown action.
	MarkPresented(ctx context.Context, id, action, handle string) error
	// Open returns the batches of which something may still come, the oldest first: of a
	// conversation, or of all if that is empty.
	Open(ctx context.Context, conversation string) ([]Batch, error)
}

const (
	batchKind    = "reflex.batch"
	openKind     = "reflex.batch.open"
	answeredKind = "reflex.batch.answered"
)

type batchBook struct {
	shelf
	now  func() time.Time
	life func(ctx context.Context, kick uuid.UUID) (PassLife, error)
}

func (b *batchBook) Create(ctx context.Context, batch Batch) error {
	now := b.now()
	batch.CreatedAt, batch.UpdatedAt = now, now
	return b.write(ctx, put(batchKind, batch.ID, 0, batch), put(openKind, openKey(batch), 0, batch.ID))
}

// openKey is where an open batch is listed: with those of its conversation.
func openKey(b Batch) string { return b.Conversation + "/" + b.ID }

func (b *batchBook) Batch(ctx context.Context, id string) (Batch, error) {
	batch, _, err := get[Batch](ctx, b.shelf, batchKind, id)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%w %q", ErrUnknownBatch, id)
	}
	return batch, err
}

// over reports whether nothing comes of the batch any more.
func (b *Batch) over() bool {
	return b.Status == BatchCompleted || b.Status == BatchExpired || !b.DeliveredAt.IsZero()
}

// undelivered reports whether the batch has answers for a run that waits.
func (b *Batch) undelivered() bool {
	return b.Mode == Live && b.Status == BatchResolved && b.DeliveredAt.IsZero()
}

// change changes a batch, and where it is listed.
func (b *batchBook) change(ctx context.Context, id string, change func(*Batch) error) (Batch, error) {
	for range maxConflicts {
		batch, version, err := get[Batch](ctx, b.shelf, batchKind, id)
		if errors.Is(err, store.ErrNotFound) {
			err = fmt.Errorf("%w %q", ErrUnknownBatch, id)
		}
		if err != nil {
			return batch, err
		}
		before := batch
		if err := change(&batch); errors.Is(err, errSame) {
			return batch, nil
		} else if err != nil {
			return batch, err
		}
		batch.UpdatedAt = b.now()
		// The lists have a record for each batch, which is written once and then removed.
		writes := []store.RecordWrite{put(batchKind, id, version, batch)}
		if batch.over() && !before.over() {
			writes = append(writes, store.RecordWrite{Kind: openKind, Key: openKey(batch), Version: 1, Delete: true}, aged(batchKind, id, batch.UpdatedAt))
		}
		if was, is := before.undelivered(), batch.undelivered(); is && !was {
			writes = append(writes, put(answeredKind, id, 0, id))
		} else if was && !is {
			writes = append(writes, store.RecordWrite{Kind: answeredKind, Key: id, Version: 1, Delete: true})
		}
		if err = b.write(ctx, writes...); !errors.Is(err, store.ErrConflict) {
			return batch, err
		}
	}
	return Batch{}, fmt.Errorf("reflex: batch %s: %w", id, store.ErrConflict)
}

func (b *batchBook) Answer(ctx context.Context, a BatchAnswer) (Batch, error) {
	return b.change(ctx, a.Batch, func(batch *Batch) error {
		if err := batch.check(a); err != nil {
			return err
		}
		switch {
		case batch.Status == BatchExpired, batch.Status == BatchPending && batch.expiredAt(b.now()):
			return fmt.Errorf("%w: %s", ErrExpired, batch.ID)
		case batch.Status != BatchPending:
			return errSame
		}
		if !batch.take(a, b.now()) {
			return errSame
		}
		return nil
	})
}

func (b *Batch) expiredAt(now time.Time) bool {
	return !b.ExpiresAt.IsZero() && !now.Before(b.ExpiresAt)
}

// check says whether the answer is one to this batch.
func (b *Batch) check(a BatchAnswer) error {
	kinds := map[string]CallKind{}
	for _, action := range b.Actions {
		kinds[action.ID] = action.Kind
	}
	for id := range a.Answers {
		if kinds[id] != QuestionCall {
			return fmt.Errorf("%w: %q is no question of batch %s", ErrUnknownAction, id, b.ID)
		}
	}
	for id := range a.Verdicts {
		if kinds[id] != ApprovalCall {
			return fmt.Errorf("%w: %q is no approval of batch %s", ErrUnknownAction, id, b.ID)
		}
	}
	return nil
}

// take takes over what is answered for the first time, and reports whether anything was.
func (b *Batch) take(a BatchAnswer, now time.Time) (changed bool) {
	open := false
	for i := range b.Actions {
		action := &b.Actions[i]
		if action.Status != ActionPending {
			continue
		}
		if answer, ok := a.Answers[action.ID]; ok {
			action.Status, action.Answer = ActionAnswered, answer
		} else if v, ok := a.Verdicts[action.ID]; ok {
			action.Status, action.Answer, action.ForSession = ActionDenied, v.Reason, v.ForSession
			if v.Approved {
				action.Status = ActionApproved
			}
		} else {
			open = true
			continue
		}
		action.Responder, action.ResolvedAt = a.Responder, now
		changed = true
	}
	if changed && !open {
		b.Status = BatchResolved
	}
	return changed
}

func (b *batchBook) Claim(ctx context.Context, id string, kick uuid.UUID) (Batch, bool, error) {
	claimed := false
	batch, err := b.change(ctx, id, func(batch *Batch) error {
		claimed = false
		switch batch.Status {
		case BatchResolved:
		case BatchResuming:
			if batch.Resumer == kick {
				claimed = true
				return errSame
			}
			// The pass that resumes holds the batch as long as it has not ended.
			life, err := b.life(ctx, batch.Resumer)
			if err != nil {
				return err
			}
			if life.alive() {
				return errSame
			}
		default:
			return errSame
		}
		batch.Status, batch.Resumer = BatchResuming, kick
		batch.Attempts++
		claimed = true
		return nil
	})
	return batch, claimed && err == nil, err
}

func (b *batchBook) Complete(ctx context.Context, id string, kick uuid.UUID) error {
	return b.settle(ctx, id, kick, BatchCompleted)
}

func (b *batchBook) Release(ctx context.Context, id string, kick uuid.UUID) error {
	return b.settle(ctx, id, kick, BatchResolved)
}

func (b *batchBook) settle(ctx context.Context, id string, kick uuid.UUID, status BatchStatus) error {
	_, err := b.change(ctx, id, func(batch *Batch) error {
		if batch.Status != BatchResuming || batch.Resumer != kick {
			return errSame
		}
		batch.Status, batch.Resumer = status, uuid.Nil
		if status == BatchCompleted {
			batch.CompletedAt = b.now()
		}
		return nil
	})
	return err
}

func (b *batchBook) Answered(ctx context.Context) ([]string, error) {
	return list[string](ctx, b.shelf, store.RecordQuery{Kind: answeredKind, Limit: maxAnswered})
}

// maxAnswered is how many answered batches are looked at at once. They stay for a moment only.
const maxAnswered = 1000

func (b *batchBook) Deliver(ctx context.Context, id string) (Batch, bool, error) {
	delivered := false
	batch, err := b.change(ctx, id, func(batch *Batch) error {
		if delivered = batch.undelivered(); !delivered {
			return errSame
		}
		batch.DeliveredAt = b.now()
		return nil
	})
	return batch, delivered && err == nil, err
}

func (b *batchBook) Expire(ctx context.Context, id string) (Batch, bool, error) {
	expired := false
	batch, err := b.change(ctx, id, func(batch *Batch) error {
		if expired = batch.Status == BatchPending || batch.undelivered(); !expired {
			return errSame
		}
		batch.Status = BatchExpired
		for i := range batch.Actions {
			if batch.Actions[i].Status == ActionPending {
				batch.Actions[i].Status = ActionExpired
			}
		}
		return nil
	})
	return batch, expired && err == nil, err
}

func (b *batchBook) MarkPresented(ctx context.Context, id, action, handle string) error {
	_, err := b.change(ctx, id, func(batch *Batch) error {
		for i := range batch.Actions {
			if a := &batch.Actions[i]; a.ID == action && a.Handle != handle {
				a.Handle = handle
				return nil
			}
		}
		return errSame
	})
	return err
}

func (b *batchBook) Open(ctx context.Context, conversation string) ([]Batch, error) {
	q := store.RecordQuery{Kind: openKind}
	if conversation != "" {
		q.Prefix = conversation + "/"
	}
	var open []Batch
	for {
		ids, err := list[string](ctx, b.shelf, q)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			batch, err := b.Batch(ctx, id)
			if err != nil {
				return nil, err
			}
			q.After = openKey(batch)
			if !batch.over() { // it was open when the list was made
				open = append(open, batch)
			}
		}
		if len(ids) == 0 {
			slices.SortStableFunc(open, func(x, y Batch) int { return x.CreatedAt.Compare(y.CreatedAt) })
			return open, nil
		}
	}
}
