package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules/document"
)

// Bounds of one search in the bodies of jobs.
const (
	maxSearchedJobs   = 20_000
	maxSearchTime     = 2 * time.Second
	maxSearchedFields = 8 // comparisons
)

// JobPage is one page of the list of pending jobs.
type JobPage struct {
	Page[Job]
	Searched *Searched `json:"searched,omitempty" doc:"How much was searched for where. Absent without where."`
}

// Searched tells how much of a list was searched in the bodies of its jobs.
type Searched struct {
	Jobs     int     `json:"jobs" doc:"Number of jobs that were searched for this page."`
	Of       *int64  `json:"of,omitempty" doc:"Number of pending jobs of the rules that the other filters select, a few seconds old. Absent if it is unknown, and with filters by key or time."`
	Seconds  float64 `json:"seconds" doc:"Duration of the search, in seconds."`
	Complete bool    `json:"complete" doc:"Whether the list was searched to its end. Otherwise next continues the search."`
}

// Text returns the extent of the search in words, such as "searched 20,000 of 1,200,000 jobs in 2.0 s".
func (s Searched) Text(number func(int64) string) string {
	of := ""
	if s.Of != nil && *s.Of >= int64(s.Jobs) {
		of = " of " + number(*s.Of)
	}
	return fmt.Sprintf("searched %s%s jobs in %.1f s", number(int64(s.Jobs)), of, s.Seconds)
}

// bodyFilter is a filter on fields of events and states: all comparisons have to hold.
type bodyFilter []comparison

// comparison compares a field with a value.
type comparison struct {
	state bool     // the field is of the state, not of the event
	path  []string // names of the field and of the objects that it is in
	not   bool
	value any // as json.Decoder.UseNumber decodes it
}

const bodyFilterForm = `write comparisons such as event.customer = "acme" and state.status != "paid"`

// parseBodyFilter reads a filter: comparisons joined by and.
func parseBodyFilter(text string) (filter bodyFilter, err error) {
	for rest := text; ; {
		var c comparison
		if c, rest, err = parseComparison(rest); err != nil {
			return nil, fmt.Errorf("%w; %s", err, bodyFilterForm)
		}
		filter = append(filter, c)
		if rest = strings.TrimSpace(rest); rest == "" {
			return filter, nil
		}
		more, is := strings.CutPrefix(rest, "and ")
		switch {
		case !is:
			return nil, fmt.Errorf("%q follows a comparison; %s", rest, bodyFilterForm)
		case len(filter) == maxSearchedFields:
			return nil, fmt.Errorf("it has more than %d comparisons", maxSearchedFields)
		}
		rest = more
	}
}

// parseComparison reads the first comparison of a text and returns the rest.
func parseComparison(text string) (c comparison, rest string, err error) {
	at := strings.IndexAny(text, "=!")
	if at < 0 {
		return c, "", errors.New("it has no = or !=")
	}
	names := strings.Split(strings.TrimSpace(text[:at]), ".")
	if c.path = names[1:]; len(c.path) == 0 || names[0] != "event" && names[0] != "state" {
		return c, "", fmt.Errorf("%q is not a field of event or state", strings.TrimSpace(text[:at]))
	}
	c.state, rest = names[0] == "state", text[at:]
	for _, operator := range []string{"!=", "==", "="} {
		if after, is := strings.CutPrefix(rest, operator); is {
			c.not, rest = operator == "!=", after
			d := json.NewDecoder(strings.NewReader(rest))
			d.UseNumber()
			if err := d.Decode(&c.value); err != nil {
				return c, "", fmt.Errorf("%q does not begin with a value in JSON: a text in quotes, a number, true, false or null", strings.TrimSpace(rest))
			}
			return c, rest[d.InputOffset():], nil
		}
	}
	return c, "", errors.New("it has ! without =")
}

// matches reports whether a job meets all comparisons.
func (f bodyFilter) matches(j futurejobs.Job) bool {
	event, state := decodeBody(j.Event), decodeBody(j.Known())
	for _, c := range f {
		in := event
		if c.state {
			in = state
		}
		for _, name := range c.path {
			object, _ := in.(map[string]any)
			in = object[name] // a missing field is null
		}
		if sameValue(in, c.value) == c.not {
			return false
		}
	}
	return true
}

// decodeBody decodes a stored body; nil if there is none.
func decodeBody(body json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil && !errors.Is(err, io.EOF) {
		return nil // an operator changed the row by hand
	}
	return v
}

// sameValue compares values; numbers by their values, so that 1.50 is 1.5.
func sameValue(a, b any) bool {
	x, isNumber := a.(json.Number)
	y, are := b.(json.Number)
	if isNumber && are {
		m, err := x.Float64()
		n, err2 := y.Float64()
		return x == y || err == nil && err2 == nil && m == n
	}
	switch a.(type) {
	case map[string]any, []any:
		return false
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// jobSearch searches the bodies of the jobs of a list.
type jobSearch struct {
	lists  JobReader
	filter bodyFilter
	limit  int
}

// run reads the list from its cursor until the page is full, the list ends or a bound of the search is reached.
func (s *jobSearch) run(ctx context.Context, f futurejobs.Filter) (found futurejobs.Page[futurejobs.ListedJob], searched Searched, err error) {
	startedAt := time.Now()
	defer func() { searched.Seconds = time.Since(startedAt).Seconds() }()
	f.Limit = futurejobs.MaxLimit
	for {
		page, err := s.lists.Jobs(ctx, f)
		if err != nil {
			return found, searched, err
		}
		for i, l := range page.Items {
			if l.Omitted {
				if l, err = s.lists.Job(ctx, l.Rule, l.Key); errors.Is(err, futurejobs.ErrNotFound) {
					continue // it has ended since
				} else if err != nil {
					return found, searched, err
				}
			}
			searched.Jobs++
			if s.filter.matches(l.Job) {
				found.Items = append(found.Items, l)
			}
			last := i == len(page.Items)-1
			if full := len(found.Items) == s.limit || searched.Jobs >= maxSearchedJobs || time.Since(startedAt) > maxSearchTime; !full || last {
				continue
			}
			found.Next = s.lists.JobCursor(page.Items[i]) // as the page has the job: l may be read after a move
			return found, searched, nil
		}
		found.Next, f.Cursor = page.Next, page.Next
		if searched.Complete = page.Next == ""; searched.Complete {
			return found, searched, nil
		}
		if len(found.Items) == s.limit || searched.Jobs >= maxSearchedJobs || time.Since(startedAt) > maxSearchTime {
			return found, searched, nil
		}
	}
}

// search lists the jobs whose bodies match.
func (a *jobAPI) search(ctx context.Context, f futurejobs.Filter, where string) (JobPage, error) {
	if len(where) > document.MaxKey {
		return JobPage{}, invalidWhere(fmt.Errorf("it has %d bytes, the most is %d", len(where), document.MaxKey))
	}
	filter, err := parseBodyFilter(where)
	if err != nil {
		return JobPage{}, invalidWhere(err)
	}
	s := &jobSearch{a.lists, filter, f.Limit}
	found, searched, err := s.run(ctx, filterVisible(ctx, f))
	if err != nil {
		return JobPage{}, err
	}
	if f.SelectsAllJobsOfRules() {
		searched.Of = a.counts.pendingOf(ctx, f)
	}
	return JobPage{pageOf(found, a.view.pending(ctx)), &searched}, nil
}

func invalidWhere(err error) error {
	return problemOfDetails(BadRequest, http.StatusBadRequest, []ProblemDetail{{Location: "query.where", Message: err.Error()}})
}
