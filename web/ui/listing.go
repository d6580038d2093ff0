package ui

import (
	"net/http"
	"net/url"
	"strings"
)

// listing is a list of the API on a page: what it is narrowed by, and where its other pages are.
type listing struct {
	At     string            // the page's path
	Asked  map[string]string // what it is narrowed by, by parameter
	Here   string            // this page of the list
	First  string            // the first page; empty: this is it
	Next   string            // the next page; empty: that was all
	cursor string
}

// listRows is how many items a page of a list has.
const listRows = "50"

// listingOf reads what a request narrows a list by; other parameters are not its own. Blanks around
// a key are part of it.
func listingOf(r *http.Request, parameters ...string) listing {
	asked := r.URL.Query()
	l := listing{At: r.URL.Path, Asked: make(map[string]string, len(parameters)), cursor: asked.Get("cursor")}
	for _, name := range parameters {
		l.Asked[name] = asked.Get(name)
		if name != "key" {
			l.Asked[name] = strings.TrimSpace(l.Asked[name])
		}
	}
	l.Here = l.page(l.cursor)
	if l.cursor != "" {
		l.First = l.page("")
	}
	return l
}

// query is what the API is asked.
func (l listing) query() url.Values {
	query := url.Values{"limit": {listRows}}
	for name, value := range l.Asked {
		if value != "" {
			query.Set(name, value)
		}
	}
	if l.cursor != "" {
		query.Set("cursor", l.cursor)
	}
	return query
}

// Narrowed reports whether the list is not of all that there is.
func (l listing) Narrowed() bool {
	for _, value := range l.Asked {
		if value != "" {
			return true
		}
	}
	return false
}

// goesOn notes where the list goes on.
func (l *listing) goesOn(next string) {
	if next != "" {
		l.Next = l.page(next)
	}
}

// page is the address of the page of the list that begins at a cursor.
func (l listing) page(cursor string) string {
	query := make(url.Values)
	for name, value := range l.Asked {
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
