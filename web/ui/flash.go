package ui

import (
	"net/http"
	"net/url"
)

// flashMessages are what can have been done before a page is shown, by how its address says so, in sentences.
type flashMessages map[string]string

// withFlash is where a page is that says that something was done; at is its address.
func withFlash(at, deed string) string {
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
func (all flashMessages) of(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	return all[r.URL.Query().Get("did")]
}
