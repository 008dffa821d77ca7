package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
)

// A filter is a parameter of a list's query string (contract 6.3).
type filter struct {
	name   string
	many   bool     // name[]=a&name[]=b
	format string   // uuid or date-time; empty for values
	values []string // that it may have
	about  string
}

func idFilter(name, about string) filter {
	return filter{name: name, many: true, format: "uuid", about: about}
}

func enumFilter[T ~string](name, about string, values ...T) filter {
	f := filter{name: name, many: true, about: about}
	for _, v := range values {
		f.values = append(f.values, string(v))
	}
	return f
}

func timeFilters(name string) []filter {
	return []filter{
		{name: name + "_after", format: "date-time", about: name + " at this time or later"},
		{name: name + "_before", format: "date-time", about: name + " at this time or earlier"},
	}
}

var (
	statusFilter = enumFilter("statuses", "with any of these statuses",
		checkpoint.Running, checkpoint.Interrupted, checkpoint.Completed, checkpoint.Failed, checkpoint.Cancelled)
	byID = idFilter("ids", "with any of these ids")

	sessionFilters = slices.Concat([]filter{byID}, timeFilters("created"), timeFilters("updated"))
	messageFilters = slices.Concat([]filter{
		byID, idFilter("run_ids", "made by any of these runs"), idFilter("checkpoint_ids", "introduced by any of these checkpoints"),
		enumFilter("roles", "of any of these roles", message.RoleSystem, message.RoleUser, message.RoleAssistant, message.RoleTool, message.RoleReasoning),
	}, timeFilters("created"))
	runFilters = slices.Concat([]filter{
		byID, idFilter("session_ids", "in any of these sessions, besides that of the path"), statusFilter,
	}, timeFilters("created"), timeFilters("updated"))
	checkpointFilters = slices.Concat([]filter{
		byID, idFilter("run_ids", "written by any of these runs"),
		enumFilter("reasons", "written for any of these reasons", checkpoint.Input, checkpoint.Step, checkpoint.Interrupt, checkpoint.Finish),
		statusFilter,
	}, timeFilters("created"))
)

// query is the query string of a list. Like those of an object, its methods keep the first thing
// that is wrong.
type query struct {
	values map[string][]string // by the name of the filter, without brackets
	fault  error
}

// brackets are those of name[] and name[0].
var brackets = regexp.MustCompile(`\[\d*\]$`)

func (r *request) query() *query {
	all, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &query{fault: badRequest("the query string cannot be read: %v", err)}
	}
	q := &query{values: map[string][]string{}}
	// In the order of the indexes, which is that of the names, as far as any order matters.
	for _, key := range slices.Sorted(maps.Keys(all)) {
		name := brackets.ReplaceAllString(key, "")
		q.values[name] = append(q.values[name], all[key]...)
	}
	return q
}

func (q *query) wrong(name, value, reason string) {
	if q.fault == nil {
		q.fault = badRequest("%s: %q %s", name, value, reason)
	}
}

// one returns the value of a parameter that is no list: the last one.
func (q *query) one(name string) (string, bool) {
	values := q.values[name]
	if len(values) == 0 {
		return "", false
	}
	return values[len(values)-1], true
}

func (q *query) ids(name string) (ids []uuid.UUID) {
	for _, text := range q.values[name] {
		id, ok := wire.ParseUUID(text)
		if !ok {
			q.wrong(name, text, "is not a UUID")
		}
		ids = append(ids, id)
	}
	return ids
}

func (q *query) time(name string) time.Time {
	text, given := q.one(name)
	if !given {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.IsZero() {
		q.wrong(name, text, "is not an RFC 3339 time such as 2026-01-02T15:04:05.999Z (a + is written %2B)")
	}
	return t
}

// times returns the range of the two filters that name has.
func (q *query) times(name string) store.TimeRange {
	return store.TimeRange{After: q.time(name + "_after"), Before: q.time(name + "_before")}
}

// enums returns the values of a filter; f says which there are.
func enums[T ~string](q *query, filters []filter, name string) (out []T) {
	f := filters[slices.IndexFunc(filters, func(f filter) bool { return f.name == name })]
	for _, text := range q.values[name] {
		if !slices.Contains(f.values, text) {
			q.wrong(name, text, "is none of "+strings.Join(f.values, ", "))
		}
		out = append(out, T(text))
	}
	return out
}

func (q *query) paging() store.Paging {
	p := store.Paging{PerPage: store.MaxPerPage}
	p.Page, _ = q.one("page")
	text, given := q.one("per_page")
	if !given {
		return p
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		q.wrong("per_page", text, "is not an integer")
	} else if (n < 1 || n > store.MaxPerPage) && q.fault == nil {
		q.fault = invalid(react.FieldError{
			Field: "per_page", Code: "range", Message: fmt.Sprintf("must be 1 to %d", store.MaxPerPage),
			Params: map[string]any{"min": 1, "max": store.MaxPerPage, "value": n},
		})
	}
	p.PerPage = int(n)
	return p
}

// listing is the answer to a list (contract 6.3).
type listing[T any] struct {
	Items    []T     `json:"items"`
	Count    int     `json:"count" jsonschema:"how many match, in all pages"`
	NextPage *string `json:"next_page" jsonschema:"cursor for the parameter page; null on the last page"`
}

// list answers a list: what load returns for the query, each item printed as item makes it.
func list[Q, T, Item any](r *http.Request, q *query, load func(context.Context, Q) (*store.Page[T], error), query Q, item func(T) Item) (any, error) {
	if q.fault != nil {
		return nil, q.fault
	}
	page, err := load(r.Context(), query)
	if err != nil {
		return nil, err
	}
	l := listing[Item]{Items: make([]Item, len(page.Items)), Count: page.Count}
	for i, v := range page.Items {
		l.Items[i] = item(v)
	}
	if page.Next != "" {
		l.NextPage = &page.Next
	}
	return l, nil
}

// same is the item of a list whose items print themselves.
func same[T any](v T) T { return v }
