package powercut

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/sqlite"
)

// An image is a store as it was found after a cut.
type image struct {
	store       store.Store
	checkpoints map[uuid.UUID]checkpoint.Checkpoint
	messages    map[uuid.UUID]store.Message
	runs        map[uuid.UUID]store.Run
}

// examine writes the files of a cut into dir, opens them with the store, and returns how many
// facts that had been acknowledged by then are lost. The error is that of a store which is
// damaged: it does not open, or not everything in it is whole, or it does not go on.
func (h *history) examine(dir string, files map[string][]byte, at int, opts sqlite.Options) (lost int, err error) {
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return 0, err
		}
	}
	path := filepath.Join(dir, database)
	opts.Readers, opts.Now = 1, func() time.Time { return time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC) }
	st, err := sqlite.Open(path, &opts)
	if err != nil {
		return 0, fmt.Errorf("open: %w", err)
	}
	lost, err = h.compare(st, at)
	err = errors.Join(err, st.Close(), integrity(path))
	return lost, err
}

// integrity asks SQLite whether the file is sound.
func integrity(path string) error {
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		return err
	}
	defer db.Close()
	var answer string
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&answer); err != nil {
		return fmt.Errorf("integrity_check: %w", err)
	}
	if answer != "ok" {
		return fmt.Errorf("integrity_check: %s", answer)
	}
	return nil
}

func (h *history) compare(st store.Store, at int) (lost int, err error) {
	m, err := look(st)
	if err != nil {
		return 0, err
	}
	if err := h.whole(m); err != nil {
		return 0, err
	}
	lost, err = h.acknowledged(m, at)
	if err != nil {
		return lost, err
	}
	return lost, m.goOn()
}

// look reads everything that the store shows.
func look(st store.Store) (*image, error) {
	ctx := context.Background()
	m := &image{
		store: st, checkpoints: map[uuid.UUID]checkpoint.Checkpoint{}, messages: map[uuid.UUID]store.Message{}, runs: map[uuid.UUID]store.Run{},
	}
	sessions, err := st.Sessions(ctx, &store.SessionQuery{Tenant: tenant})
	if err != nil {
		return nil, err
	}
	for _, s := range sessions.Items {
		if err := each(m.checkpoints, func(c checkpoint.Checkpoint) uuid.UUID { return c.ID }, func(p store.Paging) (*store.Page[checkpoint.Checkpoint], error) {
			return st.Checkpoints(ctx, &store.CheckpointQuery{Tenant: tenant, Session: s.ID, Paging: p})
		}); err != nil {
			return nil, err
		}
		if err := each(m.messages, func(v store.Message) uuid.UUID { return v.ID }, func(p store.Paging) (*store.Page[store.Message], error) {
			return st.Messages(ctx, &store.MessageQuery{Tenant: tenant, Session: s.ID, Paging: p})
		}); err != nil {
			return nil, err
		}
		if err := each(m.runs, func(r store.Run) uuid.UUID { return r.ID }, func(p store.Paging) (*store.Page[store.Run], error) {
			return st.Runs(ctx, &store.RunQuery{Tenant: tenant, Session: s.ID, Paging: p})
		}); err != nil {
			return nil, err
		}
		p, err := st.Load(ctx, &store.Load{Tenant: tenant, Session: s.ID})
		if err != nil {
			return nil, err
		}
		if p.Checkpoint == nil || len(p.Documents) == 0 {
			return nil, fmt.Errorf("session %s has no position", s.ID)
		}
	}
	return m, nil
}

// each reads all pages of a list.
func each[T any](into map[uuid.UUID]T, id func(T) uuid.UUID, list func(store.Paging) (*store.Page[T], error)) error {
	var p store.Paging
	for {
		page, err := list(p)
		if err != nil {
			return err
		}
		for _, v := range page.Items {
			into[id(v)] = v
		}
		if p.Page = page.Next; p.Page == "" {
			return nil
		}
	}
}

// whole returns an error for what was never sent, and for what is there in part.
func (h *history) whole(m *image) error {
	brought := map[uuid.UUID]bool{}
	for id, c := range m.checkpoints {
		step, ok := h.steps[id]
		if !ok {
			return fmt.Errorf("checkpoint %s was never written", id)
		}
		for _, other := range h.together[id] {
			if _, ok := m.checkpoints[other]; !ok {
				return fmt.Errorf("checkpoint %s is there without %s of the same commit", id, other)
			}
		}
		for _, sent := range step.Messages {
			got, ok := m.messages[sent.ID]
			if !ok || got.CheckpointID != id || !bytes.Equal(got.Body, sent.Body) {
				return fmt.Errorf("checkpoint %s is there without its message %s", id, sent.ID)
			}
			brought[sent.ID] = true
		}
		r, ok := m.runs[c.RunID]
		if !ok || r.Last < c.Seq {
			return fmt.Errorf("checkpoint %s is there, and its run is not as far", id)
		}
	}
	for id, v := range m.messages {
		sent, ok := h.messages[id]
		if !ok || !bytes.Equal(v.Body, sent.Body) {
			return fmt.Errorf("message %s was never written so", id)
		}
		if v.RunID != uuid.Nil && !brought[id] {
			return fmt.Errorf("message %s is there without its checkpoint", id)
		}
	}
	for _, r := range m.runs {
		p, err := m.store.Load(context.Background(), &store.Load{Tenant: tenant, Run: r.ID})
		if err != nil {
			return err
		}
		if p.Checkpoint == nil || p.Checkpoint.Seq != r.Last {
			return fmt.Errorf("the last checkpoint of run %s is missing", r.ID)
		}
		if got := p.Documents[len(p.Documents)-1].Body; !bytes.Equal(got, h.steps[p.Checkpoint.ID].Document.Body) {
			return fmt.Errorf("the document of run %s is another one: %s", r.ID, got)
		}
	}
	return nil
}

// acknowledged returns how many facts are lost that were acknowledged before a place in the record, and
// an error if what is lost of a session is not the end of it.
func (h *history) acknowledged(m *image, at int) (lost int, err error) {
	missing := map[uuid.UUID]bool{} // sessions that have lost something
	for _, f := range h.facts {
		if f.acked >= at {
			continue
		}
		ok, err := h.shows(m, f)
		if err != nil {
			return lost, err
		}
		switch {
		case !ok:
			lost++
			missing[f.session] = true
		case missing[f.session] && f.task == "": // a task may have been superseded
			return lost, fmt.Errorf("%+v is there, and something acknowledged before it is not", f)
		}
	}
	return lost, nil
}

func (h *history) shows(m *image, f fact) (bool, error) {
	if f.message != uuid.Nil {
		_, ok := m.messages[f.message]
		return ok, nil
	}
	c, ok := m.checkpoints[f.checkpoint]
	if !ok {
		return false, nil
	}
	r := m.runs[f.run]
	if c.Seq != f.seq || f.ended && r.Status != checkpoint.Completed {
		return false, fmt.Errorf("%+v is there with other values", f)
	}
	if f.task == "" || r.Last != f.seq || r.Status.Ended() {
		return true, nil
	}
	p, err := m.store.Load(context.Background(), &store.Load{Tenant: tenant, Run: f.run})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(p.Tasks, func(t store.Task) bool { return t.Key == f.task && t.Done && string(t.Value) == "result" }), nil
}

// goOn takes over every run that was left and ends it.
func (m *image) goOn() error {
	ctx := context.Background()
	runs, err := m.store.Claim(ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"graph"}, Lease: time.Minute, Limit: 100})
	if err != nil {
		return err
	}
	for _, r := range m.runs {
		if !r.Status.Ended() && !slices.ContainsFunc(runs, func(c store.Run) bool { return c.ID == r.ID }) {
			return fmt.Errorf("run %s goes on and cannot be taken over", r.ID)
		}
	}
	for _, r := range runs {
		step := store.Step{Checkpoint: checkpoint.Checkpoint{ID: uuid.New(), Status: checkpoint.Completed, Reason: checkpoint.Finish}}
		_, err := m.store.Commit(ctx, &store.Commit{Fence: r.Fence(), WriteID: uuid.New(), After: r.Last, Steps: []store.Step{step}, Status: checkpoint.Completed, Lease: time.Minute})
		if err != nil {
			return err
		}
	}
	return nil
}
