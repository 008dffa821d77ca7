package a2a

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/everstep-go/everstep/store"
)

// The bounds of pages (specification, section 3.1.4).
const (
	defaultPage = 50
	maxPage     = 100
)

// list returns tasks, those that were updated last first.
//
// All that match are counted, which the specification wants: a list costs a look at one small record of
// each task of the tenant, or of the context if one is asked for.
func (s *Server) list(ctx context.Context, tenant string, q *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	size := cmp.Or(q.PageSize, defaultPage)
	switch {
	case size < 1 || size > maxPage:
		return nil, fault(sdk.ErrInvalidParams, "pageSize must be 1 to %d, not %d", maxPage, size)
	case q.HistoryLength != nil && *q.HistoryLength < 0:
		return nil, fault(sdk.ErrInvalidParams, "historyLength must not be negative")
	case !knownState(q.Status):
		return nil, fault(sdk.ErrInvalidParams, "status: %q is no state of a task", q.Status)
	}
	before, err := cursor(q)
	if err != nil {
		return nil, err
	}
	query := store.RecordQuery{Tenant: tenant, Kind: listKind, Descending: true}
	if q.ContextID != "" {
		query.Kind, query.Prefix = contextKind, contextPrefix(q.ContextID)
	}
	var keys []string
	out := &sdk.ListTasksResponse{Tasks: []*sdk.Task{}, PageSize: size}
	err = each(ctx, s.records, query, func(r *store.Record) error {
		var e listed
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return fmt.Errorf("a2a: record %s %q is damaged: %w", r.Kind, r.Key, err)
		}
		if q.Status != "" && e.State != q.Status || q.ContextID != "" && e.Context != q.ContextID ||
			q.StatusTimestampAfter != nil && !e.Updated.After(*q.StatusTimestampAfter) {
			return nil
		}
		out.TotalSize++
		key := strings.TrimPrefix(r.Key, query.Prefix)
		if (before == "" || key < before) && len(keys) <= size {
			keys = append(keys, key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(keys) > size {
		keys = keys[:size]
		out.NextPageToken = token(q, keys[size-1])
	}
	history := -1
	if q.HistoryLength != nil {
		history = *q.HistoryLength
	}
	for _, key := range keys {
		_, id, _ := strings.Cut(key, "/")
		t, err := s.task(ctx, tenant, sdk.TaskID(id))
		if errors.Is(err, sdk.ErrTaskNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		if q.Status != "" && t.state != q.Status {
			continue // it has moved on, and is listed elsewhere by now
		}
		printed, err := t.print(ctx, history, q.IncludeArtifacts)
		if err != nil {
			return nil, err
		}
		out.Tasks = append(out.Tasks, printed)
	}
	return out, nil
}

func knownState(s sdk.TaskState) bool {
	switch s {
	case "", sdk.TaskStateSubmitted, sdk.TaskStateWorking, sdk.TaskStateInputRequired, sdk.TaskStateAuthRequired,
		sdk.TaskStateCompleted, sdk.TaskStateFailed, sdk.TaskStateCanceled, sdk.TaskStateRejected:
		return true
	}
	return false
}

// token is the opaque text of a cursor: where the page ended, and a fingerprint of the filters.
func token(q *sdk.ListTasksRequest, key string) string {
	return base64.RawURLEncoding.EncodeToString(append(fingerprint(q), key...))
}

// cursor returns the key that a token of the same filters names, empty for none.
func cursor(q *sdk.ListTasksRequest) (key string, err error) {
	if q.PageToken == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(q.PageToken)
	if n := len(fingerprint(q)); err != nil || len(text) <= n || string(text[:n]) != string(fingerprint(q)) {
		return "", store.ErrBadCursor
	} else {
		return string(text[n:]), nil
	}
}

func fingerprint(q *sdk.ListTasksRequest) []byte {
	after := ""
	if q.StatusTimestampAfter != nil {
		after = q.StatusTimestampAfter.UTC().String()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "v1 %q %q %q", q.ContextID, q.Status, after))
	return sum[:8]
}
