package graph

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
)

// scope is one execution of a node: what the funcs that a node calls with its context find. It
// is itself that context.
type scope struct {
	context.Context
	claim   *claim
	node    string
	open    []Question                 // unanswered and answered questions that the run resumed with
	answers map[string]json.RawMessage // by question id

	mu    sync.Mutex // guards what follows
	asked []Question
	kept  any // the state given to Keep
}

type scopeKey struct{}

// Value finds the scope itself; the rest is the run's.
func (sc *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return sc
	}
	return sc.Context.Value(key)
}

func scopeOf(ctx context.Context) *scope {
	sc, _ := ctx.Value(scopeKey{}).(*scope)
	return sc
}

// ask notes a question. One that was open already is asked with the payload it had.
func (sc *scope) ask(q Question) Question {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	same := func(o Question) bool { return o.ID == q.ID }
	if i := slices.IndexFunc(sc.open, same); i >= 0 {
		q = sc.open[i]
	}
	if !slices.ContainsFunc(sc.asked, same) {
		sc.asked = append(sc.asked, q)
	}
	return q
}

// answer returns the answer to a question: of this run, or of one that it takes up.
func (sc *scope) answer(id string) (json.RawMessage, bool) {
	if answer, ok := sc.answers[id]; ok {
		return answer, true
	}
	sc.claim.taskMu.Lock()
	defer sc.claim.taskMu.Unlock()
	t, ok := sc.claim.keptTask(answerTask + id)
	return t.Value, ok
}

// asksIn reports whether a question was asked in the task of a key.
func (sc *scope) asksIn(key string) bool {
	return slices.ContainsFunc(sc.asked, func(q Question) bool { return q.ID == key || strings.HasPrefix(q.ID, key+":") })
}

// Info says which run a node is running in.
type Info struct {
	Graph        string
	Tenant       string
	Session, Run uuid.UUID
	Node         string
}

// InfoFrom returns the run of a node's context; ok is false outside a run.
func InfoFrom(ctx context.Context) (info Info, ok bool) {
	sc := scopeOf(ctx)
	if sc == nil {
		return Info{}, false
	}
	c := sc.claim
	return Info{Graph: c.graph, Tenant: c.fence.Tenant, Session: c.session, Run: c.fence.Run, Node: sc.node}, true
}

// Emit sends an event to whoever observes the run. An event of what is not durable yet is held
// back until it is. Outside a run Emit does nothing.
func Emit(ctx context.Context, data event.Data) {
	if sc := scopeOf(ctx); sc != nil {
		sc.claim.emit(data)
	}
}

// Keep says which state is to be kept if the node returns an error: with its questions, as
// failed, or as cancelled. Without it that is the state from before the node. A node that has
// done a part of its work keeps that part. The last call counts. Outside a run it does nothing.
func Keep[S any](ctx context.Context, s S) {
	if sc := scopeOf(ctx); sc != nil {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		sc.kept = s
	}
}
