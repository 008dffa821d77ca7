package sqlite

import "github.com/google/uuid"

// maxCached bounds the runs that the writer remembers. There are rarely more at work at once.
const maxCached = 1024

// A cache is what the writing connection remembers of the runs that wrote last, each with its
// session's row, so that the next write of a run, and the next run of its session, read
// nothing. It is right because nobody else writes: the process has the file for itself, and the
// cache is looked at and filled only within transactions of that connection.
//
// Begin, Commit and SaveTask keep it up: they change the very values that are in it. Every other
// write empties it when it is done, and so does whatever undoes a write: see [writer].
type cache struct {
	runs     map[owned]*run
	sessions map[owned]*run // the same by their sessions, of which each has one at most
}

// owned is an id of a tenant.
type owned struct {
	tenant string
	id     uuid.UUID
}

func newCache() *cache {
	return &cache{runs: map[owned]*run{}, sessions: map[owned]*run{}}
}

// keep remembers a run as it is after a write. Another run of its session is forgotten: what it
// knows of the session is out of date.
func (h *cache) keep(r *run) {
	session := owned{r.Tenant, r.Session}
	switch other := h.sessions[session]; {
	case other == r:
		return
	case other != nil:
		delete(h.runs, owned{other.Tenant, other.ID})
	case len(h.sessions) >= maxCached:
		h.clear()
	}
	h.runs[owned{r.Tenant, r.ID}], h.sessions[session] = r, r
}

func (h *cache) clear() {
	clear(h.runs)
	clear(h.sessions)
}
