package reflex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/everstep-go/everstep/store"
)

// ThreadKind says what a thread is.
type ThreadKind string

const (
	DMRoom     ThreadKind = "dm"     // a person's direct messages
	GroupRoom  ThreadKind = "group"  // the main surface of a group
	WorkThread ThreadKind = "thread" // one piece of work
	Native     ThreadKind = "native" // a session in an agent's own client
)

// Thread is a place where agents work or people talk.
type Thread struct {
	ID      string     `json:"id"`
	Kind    ThreadKind `json:"kind"`
	Address Address    `json:"address"`
	// Parent is the room that the thread was opened in, for one that only these records know.
	Parent string `json:"parent,omitempty"`
	// Within is the kind of the room of such a thread.
	Within  ThreadKind `json:"within,omitempty"`
	Project string     `json:"project,omitempty"` // a thread is bound to one once
	// Agent owns a thread whose conversation was forked into it, although no hand-over says so.
	Agent     string    `json:"agent,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// UsedAt is when the last turn began in it, and Conversations are those that had one.
	UsedAt        time.Time `json:"used_at,omitzero"`
	Conversations []string  `json:"conversations,omitempty"`
}

// use notes that a turn of a conversation begins in the thread, or may.
func (t *Thread) use(conversation string, now time.Time) {
	t.UsedAt = now
	if !slices.Contains(t.Conversations, conversation) {
		t.Conversations = append(slices.Clip(t.Conversations), conversation)
	}
}

// Surface returns the id of the place the thread is on: itself, or the room it was opened in. A
// surface has one pass at a time, one ledger and one owner.
func (t Thread) Surface() string {
	if t.Parent != "" {
		return t.Parent
	}
	return t.ID
}

// InGroup reports whether the thread's surface is the main surface of a group, which nobody owns.
func (t Thread) InGroup() bool { return t.Kind == GroupRoom || t.Within == GroupRoom }

// Room reports whether the thread is one where people talk without end.
func (t Thread) Room() bool { return t.Kind == DMRoom || t.Kind == GroupRoom }

// Threads keeps threads. NewBooks has the implementation on store.Records.
type Threads interface {
	// Thread returns a thread; ErrNoThread if there is none.
	Thread(ctx context.Context, id string) (Thread, error)
	// Ensure keeps a thread unless there is one of its id, and returns the one that is kept.
	Ensure(ctx context.Context, t Thread) (Thread, error)
	// Change changes a thread.
	Change(ctx context.Context, id string, change func(*Thread) error) (Thread, error)
}

const threadKind = "reflex.thread"

type threadBook struct {
	shelf
	now func() time.Time
}

func (b *threadBook) Thread(ctx context.Context, id string) (Thread, error) {
	t, _, err := get[Thread](ctx, b.shelf, threadKind, id)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%w %q", ErrNoThread, id)
	}
	return t, err
}

func (b *threadBook) Ensure(ctx context.Context, t Thread) (Thread, error) {
	for range maxConflicts {
		kept, version, err := find[Thread](ctx, b.shelf, threadKind, t.ID)
		if err != nil || version > 0 {
			return kept, err
		}
		t.CreatedAt = b.now()
		writes := []store.RecordWrite{put(threadKind, t.ID, 0, t)}
		if t.Parent != "" {
			writes = append(writes, aged(threadKind, t.ID, t.CreatedAt))
		}
		if err = b.write(ctx, writes...); !errors.Is(err, store.ErrConflict) {
			return t, err
		}
	}
	return t, fmt.Errorf("reflex: thread %q: %w", t.ID, store.ErrConflict)
}

func (b *threadBook) Change(ctx context.Context, id string, change func(*Thread) error) (Thread, error) {
	return update(ctx, b.shelf, threadKind, id, func(t *Thread, exists bool) error {
		if !exists {
			return fmt.Errorf("%w %q", ErrNoThread, id)
		}
		return change(t)
	})
}

// threadAt returns the thread that an address names: a thread of the platform, or a room.
func threadAt(a Address) Thread {
	t := Thread{ID: a.ID(), Kind: GroupRoom, Address: a}
	switch {
	case a.Channel == NativeChannel:
		t.Kind = Native
	case a.Thread != "":
		t.Kind = WorkThread
	case a.Type == DM:
		t.Kind = DMRoom
	}
	return t
}

// enter returns the thread that a turn at an address runs in: the thread that the address names,
// or a fresh one in a room. A turn that comes from a thread of that room stays in it. The seed
// makes the fresh one the same however often it is asked for.
func enter(ctx context.Context, threads Threads, a Address, current *Thread, seed string) (Thread, error) {
	room, err := threads.Ensure(ctx, threadAt(a))
	if err != nil || !room.Room() {
		return room, err
	}
	if current != nil && current.Parent == room.ID {
		return *current, nil
	}
	return threads.Ensure(ctx, Thread{
		ID: room.ID + "/" + idOf("thread", seed, room.ID).String(), Kind: WorkThread, Address: a, Parent: room.ID, Within: room.Kind,
	})
}
