package ui

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"deadman/alerts"
	"deadman/web"
)

// listing is a list of the API on a page, with its filters and pagination.
type listing struct {
	At     string            // path of the page
	Filter map[string]string // filters by parameter
	Here   string            // address of this page of the list
	First  string            // address of the first page; empty: this one
	Next   string            // address of the next page; empty: this is the last
	NoRule bool              // the list is empty, and the rule of its filter does not exist
	cursor string
}

// listRows is the number of items per page.
const listRows = "50"

// listingOf reads the filters of a request. It trims all parameters except key, because blanks belong to keys.
func listingOf(r *http.Request, parameters ...string) listing {
	query := r.URL.Query()
	l := listing{At: r.URL.Path, Filter: make(map[string]string, len(parameters)), cursor: query.Get("cursor")}
	for _, name := range parameters {
		l.Filter[name] = query.Get(name)
		if name != "key" {
			l.Filter[name] = strings.TrimSpace(l.Filter[name])
		}
	}
	l.Here = l.page(l.cursor)
	if l.cursor != "" {
		l.First = l.page("")
	}
	return l
}

// findRule records that the rule of the filter does not exist, if the list is empty.
func (l *listing) findRule(c client, items int) error {
	rule := l.Filter["rule"]
	if rule == "" || items > 0 || rule == alerts.SystemRule {
		return nil
	}
	is, err := exists(c.get(rulePath(rule), nil, new(web.Rule)))
	l.NoRule = err == nil && !is
	return err
}

// query returns the query for the API.
func (l listing) query() url.Values {
	query := url.Values{"limit": {listRows}}
	for name, value := range l.Filter {
		if value != "" {
			query.Set(name, value)
		}
	}
	if l.cursor != "" {
		query.Set("cursor", l.cursor)
	}
	return query
}

// Narrowed reports whether the list has a filter.
func (l listing) Narrowed() bool {
	for _, value := range l.Filter {
		if value != "" {
			return true
		}
	}
	return false
}

// InUse returns the filters in words, such as "rule order-unshipped, severity error"; empty: the list has none.
func (l listing) InUse() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l.Filter)) {
		if value := l.Filter[name]; value != "" {
			parts = append(parts, strings.ReplaceAll(name, "_", " ")+" "+value)
		}
	}
	return strings.Join(parts, ", ")
}

// goesOn sets the next page from the API's cursor.
func (l *listing) goesOn(next string) {
	if next != "" {
		l.Next = l.page(next)
	}
}

// page returns the address of the page at a cursor.
func (l listing) page(cursor string) string {
	query := make(url.Values)
	for name, value := range l.Filter {
		if value != "" {
			query.Set(name, value)
		}
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if len(query) == 0 {
		return l.At
	}
	return l.At + "?" + query.Encode()
}
