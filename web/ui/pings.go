package ui

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"deadman/web"
)

// pingsView is where pings of a rule come in, and what came.
type pingsView struct {
	Addresses []pingAddress
	All       string // where all addresses begin; empty: they do here
	Next      string // where they go on; empty: these were all
	Of        string // the key that they are narrowed to; empty: of all
	Refused   string // why they are not shown; empty: they are
	Last      []web.PingEntry
	Did       string // what was just done to an address; empty: nothing
}

// What is done to addresses of pings, as the address of the page says it.
const (
	pingMade  = "address-made"
	pingThere = "address-there"
	pingGone  = "address-gone"
)

var pingDeeds = flashMessages{
	pingMade: "The address was made.", pingThere: "There was an address already: this one.", pingGone: "The address was taken away.",
}

// makePing makes the address of a key, or of all keys, unless it is there; at is where it is shown.
func (c client) makePing(rule, key string) (at string, err error) {
	at = rulePath(rule) + "#pings" // that of all keys is the first
	if key != "" {
		at = pingsAt(rule, pingsOf, key)
	}
	text, err := json.Marshal(map[string]string{"key": key})
	if err != nil {
		return at, err
	}
	path := rulePath(rule) + "/pings"
	a, err := c.ask(http.MethodPost, path, nil, http.Header{"Content-Type": {"application/json"}}, text)
	if err == nil {
		err = a.read("POST "+path, nil)
	}
	if a.status == http.StatusCreated {
		return withFlash(at, pingMade), err
	}
	return withFlash(at, pingThere), err
}

// pingAddress is an address as it is shown.
type pingAddress struct {
	web.PingAddress
	Unnamed bool // the rule names keys, and not this one: it is misspelt, or was taken out
}

// The parameters of a rule's page that are about the addresses of its pings.
const (
	pingsFrom = "pings" // the cursor that they begin at
	pingsOf   = "ping"  // the key that they are of
)

// pingsAt is where the addresses of a rule's pings are, or those that a parameter narrows them to.
func pingsAt(rule, parameter, value string) string {
	return rulePath(rule) + "?" + url.Values{parameter: {value}}.Encode() + "#pings"
}

// pings asks for the addresses of a rule's pings, whose keys the rule may name. An address that is a path alone is one at the
// node as the visitor reaches it.
func (c client) pings(rule string, keys []string, r *http.Request) (*pingsView, error) {
	asked := r.URL.Query()
	v := &pingsView{Of: asked.Get(pingsOf), Did: pingDeeds.of(r)}
	query := url.Values{"limit": {listRows}}
	if v.Of != "" {
		query.Set("key", v.Of)
	}
	if from := asked.Get(pingsFrom); from != "" {
		query.Set("cursor", from)
	}
	if len(query) > 1 {
		v.All = rulePath(rule) + "#pings"
	}
	var page web.Page[web.PingAddress]
	err := c.get(rulePath(rule)+"/pings", query, &page)
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
		unnamed := a.Key != "" && len(keys) > 0 && !slices.Contains(keys, a.Key)
		v.Addresses = append(v.Addresses, pingAddress{a, unnamed})
	}
	if page.Next != "" {
		v.Next = pingsAt(rule, pingsFrom, page.Next)
	}
	var last web.Page[web.PingEntry]
	if err := c.get(rulePath(rule)+"/pings/log", map[string][]string{"limit": {"10"}}, &last); err != nil && problem.Status != http.StatusNotFound {
		return nil, err
	}
	v.Last = last.Items
	return v, nil
}
