package graph

import (
	"container/list"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
	"github.com/everstep-go/everstep/store"
)

// head is a position in memory: what a run starts from, decoded.
type head[S any] struct {
	checkpoint *checkpoint.Checkpoint // nil in a session without any
	base       int64                  // of the session, when it was read
	active     bool                   // the session had an active run then
	state      S
	document   json.RawMessage // what the state is kept as, if that is known
	chain      chain
	tasks      []store.Task
}

func (h *head[S]) seq() int64 {
	if h.checkpoint == nil {
		return 0
	}
	return h.checkpoint.Seq
}

// chain is how the current document is stored: a whole one and patches on it.
type chain struct {
	whole   int // bytes of the whole one, zero if none was ever written
	patches int
	bytes   int // of the patches
}

// A document is stored whole again when there are minPatches patches on it and they have as
// many bytes as itself, so that storing and loading cost at most twice what is new; and after
// maxPatches in any case.
const (
	minPatches = 32
	maxPatches = 512
)

// next returns the document to store for a change, nil if there is none, and the chain after it.
func (c chain) next(change checkpoint.Change) (*store.Document, chain, error) {
	if change.Document == nil {
		return nil, c, nil
	}
	if change.Patch != nil && c.whole > 0 && c.patches < maxPatches && (c.patches < minPatches || c.bytes < c.whole) {
		body, err := json.Marshal(change.Patch)
		if err != nil {
			return nil, c, err
		}
		if len(body) < c.whole {
			c.patches++
			c.bytes += len(body)
			return &store.Document{Patch: true, Body: body}, c, nil
		}
	}
	body, err := change.Document()
	if err != nil {
		return nil, c, err
	}
	return &store.Document{Body: body}, chain{whole: len(body)}, nil
}

// decode makes a head of a stored position.
func (r *Runner[S]) decode(pos *store.Position) (*head[S], error) {
	h := &head[S]{checkpoint: pos.Checkpoint, base: pos.Session.Base, active: pos.Session.Active != nilID, tasks: pos.Tasks}
	var document json.RawMessage
	var patch state.Patch
	for i, d := range pos.Documents {
		if !d.Patch {
			document, patch = d.Body, nil
			h.chain = chain{whole: len(d.Body)}
			continue
		}
		p, err := state.ParsePatch(d.Body)
		if err != nil {
			return nil, fmt.Errorf("graph: document %d of session %s: %w", i, pos.Session.ID, err)
		}
		patch = append(patch, p...)
		h.chain.patches++
		h.chain.bytes += len(d.Body)
	}
	if len(patch) > 0 {
		// What was stored was within the limits of its time.
		doc, err := patch.Apply(document, &state.Limits{Bytes: math.MaxInt, Operations: math.MaxInt, Depth: state.DefaultLimits().Depth})
		if err != nil {
			return nil, fmt.Errorf("graph: document of session %s: %w", pos.Session.ID, err)
		}
		document = doc
	}
	h.document = document
	messages := make([]message.Message, len(pos.Messages))
	for i := range pos.Messages {
		m, err := pos.Messages[i].Decode()
		if err != nil {
			return nil, fmt.Errorf("graph: message %s of session %s: %w", pos.Messages[i].ID, pos.Session.ID, err)
		}
		messages[i] = m
	}
	version := r.opts.Codec.Version()
	if pos.Checkpoint != nil {
		version = pos.Checkpoint.Version
	}
	var err error
	if h.state, err = r.opts.Codec.Decode(version, document, messages); err != nil {
		return nil, fmt.Errorf("graph: state of session %s: %w", pos.Session.ID, err)
	}
	return h, nil
}

// heads keeps the latest positions of the sessions used last. Whether one still holds is
// decided by the store, when a run begins on it.
type heads[S any] struct {
	mu    sync.Mutex // guards what follows
	max   int
	order *list.List // of *headEntry[S], the one used last in front
	byKey map[runKey]*list.Element
}

type headEntry[S any] struct {
	key  runKey
	head *head[S]
}

func newHeads[S any](limit int) *heads[S] {
	return &heads[S]{max: limit, order: list.New(), byKey: make(map[runKey]*list.Element)}
}

// take removes and returns a session's head: only one run can begin on it.
func (h *heads[S]) take(session runKey) *head[S] {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.byKey[session]
	if !ok {
		return nil
	}
	delete(h.byKey, session)
	return h.order.Remove(e).(*headEntry[S]).head
}

func (h *heads[S]) put(session runKey, latest *head[S]) {
	if h.max <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.byKey[session]; ok {
		h.order.Remove(e)
	}
	h.byKey[session] = h.order.PushFront(&headEntry[S]{session, latest})
	if h.order.Len() > h.max {
		oldest := h.order.Remove(h.order.Back()).(*headEntry[S])
		delete(h.byKey, oldest.key)
	}
}

func (h *heads[S]) drop(session runKey) { h.take(session) }
