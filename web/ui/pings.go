package ui

import (
	"errors"
	"net/http"
	"strings"

	"deadman/web"
)

// pingsView is where pings of a rule come in, and what came.
type pingsView struct {
	Addresses []web.PingAddress
	More      bool   // there are more of them than are shown
	Refused   string // why they are not shown; empty: they are
	Last      []web.PingEntry
}

// pings asks for the addresses of a rule's pings. An address that is a path alone is one at the
// node as the visitor reaches it.
func (c client) pings(rule string, r *http.Request) (*pingsView, error) {
	v := new(pingsView)
	var page web.Page[web.PingAddress]
	err := c.get(rulePath(rule)+"/pings", nil, &page)
	problem := new(web.Problem)
	switch {
	case errors.As(err, &problem) && problem.Status == http.StatusForbidden:
		v.Refused = "Addresses are secrets: those may see them who may change rules."
	case errors.As(err, &problem) && problem.Status == http.StatusNotFound:
		v.Refused = problem.Detail
	case err != nil:
		return nil, err
	}
	home := "http://" + r.Host
	if r.TLS != nil {
		home = "https://" + r.Host
	}
	for _, a := range page.Items {
		if strings.HasPrefix(a.URL, "/") {
			a.URL = home + a.URL
		}
		v.Addresses = append(v.Addresses, a)
	}
	v.More = page.Next != ""
	var last web.Page[web.PingEntry]
	if err := c.get(rulePath(rule)+"/pings/log", map[string][]string{"limit": {"10"}}, &last); err != nil && problem.Status != http.StatusNotFound {
		return nil, err
	}
	v.Last = last.Items
	return v, nil
}
