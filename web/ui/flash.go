package ui

import (
	"net/http"
	"net/url"
)

// deeds are what can have been done before a page is shown, by how its address says so, in sentences.
type deeds map[string]string

// did is where a page is that says that something was done; at is its address.
func did(at, deed string) string {
	to, err := url.Parse(at)
	if err != nil {
		return at // the page comes without the line
	}
	query := to.Query()
	query.Set("did", deed)
	to.RawQuery = query.Encode()
	return to.String()
}

// of is the sentence of what was done before a page that is asked for; empty: nothing was. What a form
// on the page leads to is no longer about it.
func (all deeds) of(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	return all[r.URL.Query().Get("did")]
}
