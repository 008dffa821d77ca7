package reflex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// Prune says what of the books is to go. See [Engine.Prune].
type Prune struct {
	// Before: what is older goes.
	Before time.Time
	// Limit is how many records go in one call, the oldest first, a few more or less. A few thousand
	// are soon done. Zero means 1000.
	Limit int
}

// Prune removes what is old from the records of the engine, and returns how many of them it removed:
// call it again until that is less than the limit. It may be called while passes are under way, by
// any process.
//
//   - Rows of the ledger go by their time, whether they were part of a prompt or not, and with them what is
//     known of their deliveries. So do receipts, hand-overs that others followed, and batches by the time
//     when they were over.
//   - Threads that were opened in a room for one turn go when no turn began in them since, with their
//     conversations.
//   - A surface on which nothing happened since goes with all that belongs to it, also its owner. If
//     something is said there again, it is a new one.
//   - What has a pass under way or waits for answers stays.
//
// The passes and the sessions of agents are the store's: they go with store.Store.Prune, which may be
// given the same time. Directories of workspaces are not touched. Parts that [Config.Books] replaces
// keep what they have.
func (e *Engine) Prune(ctx context.Context, p Prune) (int, error) {
	if p.Before.After(e.config.Now()) {
		return 0, errors.New("reflex: prune: Before is in the future, so all would go")
	}
	if p.Limit <= 0 {
		p.Limit = 1000
	}
	b := &broom{shelf: shelf{records: e.config.Records, tenant: e.config.Tenant}, e: e, Prune: p}
	err := b.ages(ctx)
	if err == nil {
		err = b.surfaces(ctx)
	}
	return b.gone, err
}

const ageKind = "reflex.age"

// age names a record whose age is listed.
type age struct {
	Kind string    `json:"kind"`
	Key  string    `json:"key"`
	At   time.Time `json:"at"`
}

// timeKey writes a time so that keys are in its order.
func timeKey(at time.Time) string { return fmt.Sprintf("%016x", max(at.UnixNano(), 0)) }

func (a age) key() string { return timeKey(a.At) + "/" + a.Kind + "/" + url.PathEscape(a.Key) }

// aged lists a record by its age. A record is listed once; what is used again is listed anew when its
// time has come.
func aged(kind, key string, at time.Time) store.RecordWrite {
	a := age{Kind: kind, Key: key, At: at}
	return put(ageKind, a.key(), 0, a)
}

// broom removes what is old.
type broom struct {
	shelf
	Prune
	e    *Engine
	gone int
}

// sweep calls do with the records of a list that is ordered by time which are from before, the oldest
// first, until enough are gone.
func (b *broom) sweep(ctx context.Context, kind string, do func(store.Record) error) error {
	q := store.RecordQuery{Tenant: b.tenant, Kind: kind}
	for {
		var due []store.Record
		err := again(ctx, func(ctx context.Context) (err error) {
			due, err = b.records.ListRecords(ctx, &q)
			return err
		})
		if err != nil || len(due) == 0 {
			return err
		}
		for _, r := range due {
			if r.Key >= timeKey(b.Before) || b.gone >= b.Limit {
				return nil
			}
			if err := do(r); err != nil {
				return err
			}
			q.After = r.Key
		}
	}
}

// ages removes single records that are old. What was listed anew as old is looked at again.
func (b *broom) ages(ctx context.Context) error {
	for before := -1; b.gone != before && b.gone < b.Limit; {
		before = b.gone
		err := b.sweep(ctx, ageKind, func(r store.Record) error {
			var a age
			if err := json.Unmarshal(r.Value, &a); err != nil {
				return fmt.Errorf("reflex: record %s %q: %w", r.Kind, r.Key, err)
			}
			removes, used, err := b.look(ctx, a)
			if err != nil {
				return err
			}
			if again := aged(a.Kind, a.Key, used); again.Key != r.Key {
				removes = append(removes, store.RecordWrite{Kind: ageKind, Key: r.Key, Version: 1, Delete: true})
				if !used.IsZero() {
					removes = append(removes, again)
				}
			}
			return b.remove(ctx, removes)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// remove makes the writes. If somebody was faster, nothing goes, and the next call finds what there is
// then.
func (b *broom) remove(ctx context.Context, writes []store.RecordWrite) error {
	err := b.write(ctx, writes...)
	if errors.Is(err, store.ErrConflict) {
		return ctx.Err()
	}
	for _, w := range writes {
		if err == nil && w.Delete && w.Kind != ageKind && w.Kind != recentKind {
			b.gone++
		}
	}
	return err
}

// look says which records go with one that is listed as old, and when it was used last if it stays.
func (b *broom) look(ctx context.Context, a age) (removes []store.RecordWrite, used time.Time, err error) {
	switch a.Kind {
	case surfaceKind:
		return b.rows(ctx, a.Key)
	case threadKind:
		return b.thread(ctx, a.Key)
	}
	removes, err = b.removal(ctx, nil, a.Kind, a.Key)
	return removes, time.Time{}, err
}

// removal adds the end of a record, if there is one.
func (b *broom) removal(ctx context.Context, removes []store.RecordWrite, kind, key string) ([]store.RecordWrite, error) {
	_, version, err := find[json.RawMessage](ctx, b.shelf, kind, key)
	if err == nil && version > 0 {
		removes = append(removes, store.RecordWrite{Kind: kind, Key: key, Version: version, Delete: true})
	}
	return removes, err
}

// atOnce is how many rows go in one write.
const atOnce = 100

// rows removes the first rows of a surface. The rest is listed by the time of the first that stays.
func (b *broom) rows(ctx context.Context, on string) ([]store.RecordWrite, time.Time, error) {
	records, err := b.records.ListRecords(ctx, &store.RecordQuery{Tenant: b.tenant, Kind: rowKind, Prefix: rowPrefix(on), Limit: atOnce + 1})
	if err != nil {
		return nil, time.Time{}, err
	}
	var removes []store.RecordWrite
	for i, record := range records {
		var r Row
		if err := json.Unmarshal(record.Value, &r); err != nil {
			return nil, time.Time{}, fmt.Errorf("reflex: record %s %q: %w", rowKind, record.Key, err)
		}
		if i == atOnce || !r.At.Before(b.Before) {
			return removes, r.At, nil
		}
		removes = append(removes, store.RecordWrite{Kind: rowKind, Key: record.Key, Version: record.Version, Delete: true})
		if r.Delivery != "" {
			removes = append(removes, store.RecordWrite{Kind: deliveryKind, Key: rowPrefix(on) + r.Delivery, Version: 1, Delete: true})
		}
	}
	// No row is left: the next one is listed again.
	head, version, err := find[surface](ctx, b.shelf, surfaceKind, on)
	if err == nil && version > 0 {
		head.Aged = false
		removes = append(removes, put(surfaceKind, on, version, head))
	}
	return removes, time.Time{}, err
}

// thread removes a thread that was opened in a room, with its conversations, unless one of them is in
// use.
func (b *broom) thread(ctx context.Context, id string) ([]store.RecordWrite, time.Time, error) {
	t, version, err := find[Thread](ctx, b.shelf, threadKind, id)
	if err != nil || version == 0 {
		return nil, time.Time{}, err
	}
	if !t.UsedAt.Before(b.Before) {
		return nil, t.UsedAt, nil
	}
	busy, removes, err := b.conversations(ctx, t)
	if err != nil || busy {
		return nil, b.e.config.Now(), err
	}
	return append(removes, store.RecordWrite{Kind: threadKind, Key: id, Version: version, Delete: true}), time.Time{}, nil
}

// conversations returns the ends of a thread's conversations, or reports that one is in use.
func (b *broom) conversations(ctx context.Context, t Thread) (busy bool, removes []store.RecordWrite, err error) {
	for _, id := range t.Conversations {
		open, err := b.e.books.Batches.Open(ctx, id)
		if err != nil || len(open) > 0 {
			return true, nil, err
		}
		holder, err := b.e.books.Turns.Holder(ctx, id)
		if err != nil || holder != uuid.Nil {
			return true, nil, err
		}
		for _, kind := range []string{conversationKind, turnKind} {
			if removes, err = b.removal(ctx, removes, kind, id); err != nil {
				return true, nil, err
			}
		}
	}
	return false, removes, nil
}

// surfaces removes the surfaces on which nothing happened since. Their rows are gone by then.
func (b *broom) surfaces(ctx context.Context) error {
	return b.sweep(ctx, recentKind, func(r store.Record) error {
		var on string
		if err := json.Unmarshal(r.Value, &on); err != nil {
			return fmt.Errorf("reflex: record %s %q: %w", r.Kind, r.Key, err)
		}
		removes, err := b.surface(ctx, on)
		if err != nil || len(removes) == 0 {
			return err
		}
		return b.remove(ctx, append(removes, store.RecordWrite{Kind: recentKind, Key: r.Key, Version: 1, Delete: true}))
	})
}

// surface returns the ends of all that belongs to a surface; none if it is in use.
func (b *broom) surface(ctx context.Context, on string) ([]store.RecordWrite, error) {
	head, version, err := find[surface](ctx, b.shelf, surfaceKind, on)
	if err != nil || version == 0 || head.Aged || !head.At.Before(b.Before) {
		return nil, err
	}
	if holder, err := b.e.books.Surfaces.Holder(ctx, on); err != nil || holder != uuid.Nil {
		return nil, err
	}
	inside, err := list[Thread](ctx, b.shelf, store.RecordQuery{Kind: threadKind, Prefix: on + "/", Limit: 1})
	if err != nil || len(inside) > 0 {
		return nil, err
	}
	t, _, err := find[Thread](ctx, b.shelf, threadKind, on)
	if err != nil || !t.UsedAt.Before(b.Before) {
		return nil, err
	}
	busy, removes, err := b.conversations(ctx, t)
	if err != nil || busy {
		return nil, err
	}
	handoffs, err := (&handoffBook{shelf: b.shelf}).History(ctx, on)
	if err != nil {
		return nil, err
	}
	for _, h := range handoffs {
		if removes, err = b.removal(ctx, removes, handoffKind, rowKey(RowID{on, h.Seq})); err != nil {
			return nil, err
		}
	}
	for _, kind := range []string{threadKind, ownerKind, holdKind} {
		if removes, err = b.removal(ctx, removes, kind, on); err != nil {
			return nil, err
		}
	}
	return append(removes, store.RecordWrite{Kind: surfaceKind, Key: on, Version: version, Delete: true}), nil
}
