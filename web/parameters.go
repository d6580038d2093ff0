package web

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"deadman/rules/document"

	"github.com/danielgtaylor/huma/v2"

	futurejobs "deadman/future_jobs"
	"deadman/internal/configfile"
)

// maxText is the longest key of a job, in bytes. No other name is longer.
const maxText = 512

// identifier is a name or a key in a request.
type identifier string

// Identifier is identifier, for clients that build the body of a request.
type Identifier = identifier

var _ huma.ResolverWithPath = identifier("")

// Resolve implements huma.ResolverWithPath: it refuses invalid names and keys.
func (t identifier) Resolve(_ huma.Context, at *huma.PathBuffer) []error {
	return invalidName(string(t), maxText, at)
}

// maxObject is the longest object of an audit entry, in bytes: that of a job, with its rule and its key.
const maxObject = len("job/") + maxRule + len("/") + maxText

// maxRule is the longest name of a rule, in bytes.
const maxRule = 63

// auditObject is the object of an audit entry.
type auditObject string

var _ huma.ResolverWithPath = auditObject("")

// Resolve implements huma.ResolverWithPath: it refuses invalid objects.
func (o auditObject) Resolve(_ huma.Context, at *huma.PathBuffer) []error {
	return invalidName(string(o), maxObject, at)
}

// invalidName returns the reasons that a text is no name or key of up to limit bytes.
func invalidName(t string, limit int, at *huma.PathBuffer) []error {
	switch {
	case len(t) > limit:
		return []error{ProblemDetail{Location: at.String(), Message: fmt.Sprintf("%d bytes are too many; the limit is %d", len(t), limit)}}
	case !utf8.ValidString(t) || strings.ContainsRune(t, 0):
		return []error{ProblemDetail{Location: at.String(), Message: "not valid UTF-8 without NUL; no key or name has such bytes"}}
	}
	return nil
}

// Paging selects a page of a list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of items on the page."`
	Cursor string `query:"cursor" doc:"Value of next on the previous page. Omit it for the first page."`
}

// ListFilter filters lists of jobs and alerts.
type ListFilter struct {
	Rule   identifier `query:"rule" doc:"Filter by rule." example:"order-unshipped"`
	Entity identifier `query:"entity" doc:"Filter by entity type." example:"order"`
	Key    identifier `query:"key" doc:"Filter by key." example:"1234"`
}

func (p Paging) page(f futurejobs.Filter) futurejobs.Filter {
	f.Limit, f.Cursor = p.Limit, p.Cursor
	return f
}

func (n ListFilter) filter() futurejobs.Filter {
	return futurejobs.Filter{Rule: string(n.Rule), Entity: string(n.Entity), Key: string(n.Key)}
}

func wrongQuery(op *huma.Operation, query url.Values) (wrong []ProblemDetail) {
	known := make(map[string]*huma.Param)
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			known[p.Name] = p
			names = append(names, p.Name)
		}
	}
	report := func(name, format string, args ...any) {
		wrong = append(wrong, ProblemDetail{Location: "query." + name, Message: fmt.Sprintf(format, args...)})
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch values := query[name]; {
		case known[name] == nil:
			report(name, "%s", unknown("parameter", name, names))
		case len(values) > 1:
			report(name, "%s is given %d times; give it once", name, len(values))
		case values[0] == "" && (known[name].Schema.Type != huma.TypeString || known[name].Schema.Format != ""):
			report(name, "it has no value; give one, or leave %s out", name)
		}
	}
	return wrong
}

// unknown returns a message about an unknown name, with a suggestion.
func unknown(what, name string, known []string) string {
	if len(known) == 0 {
		return "unknown " + what + "; there are none here"
	}
	if near := configfile.Suggest(name, known); near != "" {
		return "unknown " + what + "; did you mean " + near + "?"
	}
	return "unknown " + what + "; there are " + strings.Join(known, ", ")
}

// Relative formats t relative to now, in one unit: "in 12 s", "3 m ago", "now".
func Relative(t, now time.Time) string {
	d := t.Sub(now)
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d > 0:
		return "in " + Span(d)
	}
	return Span(-d) + " ago"
}

// Span formats a positive duration in one unit, rounded down, such as 95 s or 3 d.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d m", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/day)
}

// untilOf returns the end of a request's duration, given as a time or as a span from now; zero if neither is given. The
// error is for the client.
func untilOf(until time.Time, span string, now time.Time) (time.Time, error) {
	if span == "" {
		return until, nil
	}
	if !until.IsZero() {
		return until, refused("body.for", "it cannot be combined with until; set one of them")
	}
	d, err := document.ParseDuration(span)
	if err != nil {
		return until, refused("body.for", "%v", err)
	}
	return now.Add(time.Duration(d)), nil
}

// noEnd refuses a request without an end.
func noEnd() error {
	return refused("body", `no end is set; send {"for": "2h"} or {"until": "2026-01-31T15:04:05Z"}`)
}
