package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// maxText is the longest key that a job can have, in bytes. No other name is longer.
const maxText = 512

// reading takes values out of a request and gathers what is wrong with them, so that a
// client hears of everything at once. What was asked for is what is known: done refuses
// any other query parameter.
type reading struct {
	w     http.ResponseWriter
	r     *http.Request
	query url.Values
	known []string
	wrong []Detail
	err   error // a problem of its own, such as a body that is too large
}

func newReading(w http.ResponseWriter, r *http.Request) *reading {
	from := &reading{w: w, r: r}
	var err error
	if from.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		from.refuse("query", "the query cannot be read: %v; percent-encode its values", err)
	}
	return from
}

func (from *reading) refuse(location, format string, args ...any) {
	from.wrong = append(from.wrong, Detail{Location: location, Message: fmt.Sprintf(format, args...)})
}

// one returns the value of a query parameter that may be there once.
func (from *reading) one(name string) (string, bool) {
	from.known = append(from.known, name)
	values := from.query[name]
	switch len(values) {
	case 0:
		return "", false
	case 1:
		return values[0], true
	}
	from.refuse("query."+name, "%s is given %d times; give it once", name, len(values))
	return "", false
}

func (from *reading) text(name string) string {
	v, _ := from.one(name)
	from.checkText("query."+name, v)
	return v
}

func (from *reading) checkText(location, v string) {
	switch {
	case len(v) > maxText:
		from.refuse(location, "%d bytes are too many; the limit is %d", len(v), maxText)
	case !utf8.ValidString(v) || strings.ContainsRune(v, 0):
		from.refuse(location, "not valid UTF-8 without NUL; no key or name has such bytes")
	}
}

func (from *reading) instant(name string) time.Time {
	v, ok := from.one(name)
	if !ok {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		from.refuse("query."+name, "%q is no instant; write it as in 2026-01-31T15:04:05Z (and + as %%2B)", v)
	}
	return t.UTC()
}

// number returns a whole number from least to most, and absent when it is not there.
func (from *reading) number(name string, least, most, absent int) int {
	v, ok := from.one(name)
	if !ok {
		return absent
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		from.refuse("query."+name, "%q is no whole number from %d to %d", v, least, most)
		return absent
	}
	return n
}

// path returns a part of the path, unescaped once.
func (from *reading) path(name string) string {
	v := chi.URLParam(from.r, name)
	if from.r.URL.RawPath != "" { // chi then matched the escaped path
		plain, err := url.PathUnescape(v)
		if err != nil {
			from.refuse("path."+name, "%v", err)
		}
		v = plain
	}
	from.checkText("path."+name, v)
	return v
}

// body reads the request's body up to limit bytes.
func (from *reading) body(limit int64) []byte {
	data, err := io.ReadAll(http.MaxBytesReader(from.w, from.r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		from.err = problem(http.StatusRequestEntityTooLarge, "the body is over the limit of %d bytes (%d KiB)", limit, limit>>10)
	case err != nil:
		from.err = problem(http.StatusBadRequest, "the body ended early: %v", err)
	}
	return data
}

// done returns all that was wrong, or nil.
func (from *reading) done() error {
	for name := range from.query {
		if !slices.Contains(from.known, name) {
			from.refuse("query."+name, "%s", from.unknown(name))
		}
	}
	if len(from.wrong) == 0 {
		return from.err
	}
	slices.SortFunc(from.wrong, func(a, b Detail) int { return strings.Compare(a.Location, b.Location) })
	said := make([]string, len(from.wrong))
	for i, d := range from.wrong {
		said[i] = d.Location + ": " + d.Message
	}
	p := problem(http.StatusBadRequest, "%s", strings.Join(said, "; "))
	p.Errors = from.wrong
	return p
}

func (from *reading) unknown(name string) string {
	if len(from.known) == 0 {
		return "unknown parameter; there are none here"
	}
	if near := rules.Nearest(name, from.known); near != "" {
		return "unknown parameter; did you mean " + near + "?"
	}
	return "unknown parameter; there are " + strings.Join(from.known, ", ")
}

// readFilter reads what narrows any list.
func readFilter(from *reading) futurejobs.Filter {
	return futurejobs.Filter{
		Rule: from.text("rule"), Entity: from.text("entity"), Key: from.text("key"),
		Cursor: from.cursor(), Limit: from.limit(),
	}
}

func (from *reading) limit() int { return from.number("limit", 1, futurejobs.MaxLimit, 0) }

func (from *reading) cursor() string {
	v, _ := from.one("cursor")
	return v
}
