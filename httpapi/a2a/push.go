package a2a

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// pushRecord is a push notification config, and how far its client was notified.
type pushRecord struct {
	Config sdk.PushConfig `json:"config"`
	// Told is how many times the task came to rest that the client was told of.
	Told int `json:"told"`
	// Failures is how often the next notification failed, since Since; Next is when it is tried again.
	Failures int       `json:"failures,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Next     time.Time `json:"next,omitzero"`
	// Sender sends it until Until: others leave it alone.
	Sender uuid.UUID `json:"sender,omitzero"`
	Until  time.Time `json:"until,omitzero"`
}

// maxPushes is how many configs a task may have: each notification goes to all of them.
const maxPushes = 16

// checkPush refuses a config that cannot work, or must not.
func (s *Server) checkPush(c *sdk.PushConfig) error {
	if !s.card.pushes {
		return fault(sdk.ErrPushNotificationNotSupported, "the agent sends no push notifications")
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return fault(sdk.ErrInvalidParams, "url: %q is no http or https URL, without a user", c.URL)
	}
	if err := s.pusher.allowsHost(u.Hostname()); err != nil {
		return fault(sdk.ErrInvalidParams, "url: %v", err)
	}
	for name, text := range map[string]string{"id": c.ID, "url": c.URL} {
		if len(text) > maxID {
			return fault(sdk.ErrInvalidParams, "%s is longer than %d bytes", name, maxID)
		}
	}
	if strings.ContainsRune(c.ID, 0) {
		return fault(sdk.ErrInvalidParams, "id must not have a NUL")
	}
	fields := []string{c.Token}
	if a := c.Auth; a != nil {
		if a.Scheme == "" || strings.ContainsAny(a.Scheme, " \t,") {
			return fault(sdk.ErrInvalidParams, "authentication.scheme must be one scheme, such as Bearer")
		}
		fields = append(fields, a.Scheme, a.Credentials)
	}
	for _, text := range fields {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fault(sdk.ErrInvalidParams, "token and authentication must not have control characters")
		}
	}
	return nil
}

// addPush writes a config of a task with the task's other records. Told is how many times the task came
// to rest before.
func (t *task) addPush(ctx context.Context, w *writes, c *sdk.PushConfig, told int) error {
	if c == nil {
		return nil
	}
	kept := pushRecord{Config: *c, Told: told}
	kept.Config.TaskID = t.ref().TaskID
	kept.Config.ID = cmp.Or(c.ID, uuid.NewString())
	*c = kept.Config
	all, err := t.pushes(ctx)
	if err != nil {
		return err
	}
	version := int64(0)
	for _, p := range all {
		if p.Config.ID == kept.Config.ID {
			version = p.version
		}
	}
	if version == 0 && len(all) >= maxPushes {
		return fault(sdk.ErrInvalidParams, "task %s has %d push notification configs already: delete one", t.id, len(all))
	}
	w.put(pushKind, pushKey(t.id, kept.Config.ID), version, kept)
	return nil
}

// keptPush is a config with the version of its record.
type keptPush struct {
	pushRecord
	key     string
	version int64
}

// pushes returns the configs of the task by their ids.
func (t *task) pushes(ctx context.Context) (all []keptPush, err error) {
	err = each(ctx, t.server.records, store.RecordQuery{Tenant: t.tenant, Kind: pushKind, Prefix: pushKey(t.id, "")}, func(r *store.Record) error {
		p := keptPush{key: r.Key, version: r.Version}
		if err := json.Unmarshal(r.Value, &p.pushRecord); err != nil {
			return fmt.Errorf("a2a: record %s %q is damaged: %w", pushKind, r.Key, err)
		}
		all = append(all, p)
		return nil
	})
	return all, err
}

// dropPushes removes the configs with the task's other records.
func (t *task) dropPushes(ctx context.Context, w *writes) error {
	all, err := t.pushes(ctx)
	for _, p := range all {
		w.remove(pushKind, p.key, p.version)
	}
	return err
}

// createPush adds a config to a task, or replaces the one of its id. A task that rests already is told
// of at once: its client cannot know whether it came in time.
func (s *Server) createPush(ctx context.Context, tenant string, c *sdk.PushConfig) (*sdk.PushConfig, error) {
	if err := s.checkPush(c); err != nil {
		return nil, err
	}
	for {
		t, err := s.task(ctx, tenant, c.TaskID)
		if err != nil {
			return nil, err
		}
		told := len(t.rests())
		if resting(t.state) {
			told--
		}
		var w writes
		if err := t.addPush(ctx, &w, c, told); err != nil {
			return nil, err
		}
		if err := s.addWork(ctx, workItem{tenant, t.id}); err != nil {
			return nil, err
		}
		err = w.commit(ctx, s.records, tenant)
		if errors.Is(err, store.ErrConflict) {
			continue // it was being notified
		}
		if err != nil {
			return nil, err
		}
		s.mind(workItem{tenant, t.id})
		return c, nil
	}
}

// getPush returns a config.
func (s *Server) getPush(ctx context.Context, tenant string, q *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	t, err := s.pushable(ctx, tenant, q.TaskID)
	if err != nil {
		return nil, err
	}
	var kept pushRecord
	if strings.ContainsRune(q.ID, 0) || !utf8.ValidString(q.ID) || q.ID == "" {
		return nil, noPush(q.TaskID, q.ID)
	}
	version, err := read(ctx, s.records, tenant, pushKind, pushKey(t.id, q.ID), &kept)
	if err == nil && version == 0 {
		err = noPush(q.TaskID, q.ID)
	}
	return &kept.Config, err
}

func noPush(task sdk.TaskID, id string) error {
	return fault(sdk.ErrTaskNotFound, "task %s has no push notification config %q", task, id)
}

// listPushes returns the configs of a task. They are few: all of them are one page.
func (s *Server) listPushes(ctx context.Context, tenant string, q *sdk.ListTaskPushConfigRequest) (*sdk.ListTaskPushConfigResponse, error) {
	t, err := s.pushable(ctx, tenant, q.TaskID)
	if err != nil {
		return nil, err
	}
	size := q.PageSize
	if size < 0 {
		return nil, fault(sdk.ErrInvalidParams, "pageSize must not be negative")
	}
	if size == 0 {
		size = maxPushes
	}
	after := ""
	if q.PageToken != "" {
		text, err := base64.RawURLEncoding.DecodeString(q.PageToken)
		if err != nil {
			return nil, store.ErrBadCursor
		}
		after = string(text)
	}
	all, err := t.pushes(ctx)
	if err != nil {
		return nil, err
	}
	out := &sdk.ListTaskPushConfigResponse{Configs: []*sdk.PushConfig{}}
	for i := range all {
		switch c := &all[i].Config; {
		case c.ID <= after && after != "":
		case len(out.Configs) == size:
			out.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(out.Configs[size-1].ID))
			return out, nil
		default:
			out.Configs = append(out.Configs, c)
		}
	}
	return out, nil
}

// deletePush removes a config. It does nothing if there is none.
func (s *Server) deletePush(ctx context.Context, tenant string, q *sdk.DeleteTaskPushConfigRequest) error {
	t, err := s.pushable(ctx, tenant, q.TaskID)
	if err != nil {
		return err
	}
	for {
		all, err := t.pushes(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(p keptPush) bool { return p.Config.ID == q.ID })
		if i < 0 {
			return nil
		}
		var w writes
		w.remove(pushKind, all[i].key, all[i].version)
		if err := w.commit(ctx, s.records, tenant); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// pushable returns a task whose configs are asked for.
func (s *Server) pushable(ctx context.Context, tenant string, id sdk.TaskID) (*task, error) {
	if !s.card.pushes {
		return nil, fault(sdk.ErrPushNotificationNotSupported, "the agent sends no push notifications")
	}
	return s.task(ctx, tenant, id)
}

// rest is one time that a task came to rest: its clients are told of each.
type rest struct {
	run    uuid.UUID // nil: it was cancelled while it waited for an answer
	status sdk.TaskStatus
}

// rests returns the times that the task came to rest, in order. It only ever grows at its end.
func (t *task) rests() (all []rest) {
	for i, n := range t.turns {
		run, ok := t.runs[n.Run]
		if !ok || !run.Status.Ended() {
			break
		}
		at := run.UpdatedAt.UTC().Truncate(time.Millisecond)
		r := rest{run: n.Run, status: sdk.TaskStatus{State: sdk.TaskStateInputRequired, Timestamp: &at}}
		switch {
		case i+1 < len(t.turns):
			r.status.Message = t.turns[i+1].Asked
		case !t.kept.Cancelled:
			r.status = t.status()
		}
		all = append(all, r)
	}
	if t.kept.Cancelled && len(all) == len(t.turns) {
		all = append(all, rest{status: t.status()})
	}
	return all
}

// updates returns what a client is told of a rest: what the run made, then the status.
func (t *task) updates(ctx context.Context, r rest) ([]sdk.Event, error) {
	var all []sdk.Event
	byRun, err := t.artifacts(ctx)
	if err != nil {
		return nil, err
	}
	for i, list := range byRun {
		if t.turns[i].Run != r.run {
			continue
		}
		for _, a := range list {
			all = append(all, &sdk.TaskArtifactUpdateEvent{TaskID: t.ref().TaskID, ContextID: t.kept.Context, Artifact: a, LastChunk: true})
		}
	}
	return append(all, &sdk.TaskStatusUpdateEvent{TaskID: t.ref().TaskID, ContextID: t.kept.Context, Status: r.status}), nil
}
