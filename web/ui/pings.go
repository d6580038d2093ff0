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

// pingsView is the ping URLs of a rule and its ping log.
type pingsView struct {
	Addresses []pingAddress
	All       string // address of the complete list; empty: this page shows its beginning
	Next      string // address of the next page; empty: this is the last
	Of        string // key of the filter; empty: none
	Refused   string // why the URLs are hidden; empty: they are shown
	Last      []receivedPing
	Did       string // result of the last action; empty: none
}

// Values of did for actions on ping URLs.
const (
	pingMade  = "address-made"
	pingThere = "address-there"
	pingGone  = "address-gone"
)

var pingMessages = flashMessages{
	pingMade: "Ping URL created.", pingThere: "This ping URL already exists.", pingGone: "Ping URL deleted.",
}

// pingClient reads and makes ping addresses.
type pingClient struct{ client }

// makePing creates the ping URL of a key, or of all keys, unless it exists. at is the page that shows it.
func (c pingClient) makePing(rule, key string) (at string, err error) {
	at = rulePath(rule) + "#pings" // the URL of all keys is listed first
	if key != "" {
		at = pingsAt(rule, pingsOf, key)
	}
	text, err := json.Marshal(map[string]string{"key": key})
	if err != nil {
		return at, err
	}
	path := rulePath(rule) + "/pings"
	a, err := c.send(http.MethodPost, path, nil, http.Header{"Content-Type": {"application/json"}}, text)
	if err == nil {
		err = a.decode("POST "+path, nil)
	}
	if a.status == http.StatusCreated {
		return withFlash(at, pingMade), err
	}
	return withFlash(at, pingThere), err
}

// pingAddress is a ping URL for display.
type pingAddress struct {
	web.PingAddress
	Unnamed bool // the rule's list of keys lacks this one: misspelled or removed
}

// Parameters of a rule's page for its ping URLs.
const (
	pingsFrom = "pings" // cursor of the list
	pingsOf   = "ping"  // key of the filter
)

// pingsAt returns the address of a rule's ping URLs, narrowed by a parameter.
func pingsAt(rule, parameter, value string) string {
	return rulePath(rule) + "?" + url.Values{parameter: {value}}.Encode() + "#pings"
}

// pings reads the ping URLs of a rule. keys are the rule's declared keys. A URL without a host is completed with the
// host of the visitor's request.
func (c pingClient) pings(rule string, keys []string, r *http.Request) (*pingsView, error) {
	parameters := r.URL.Query()
	v := &pingsView{Of: parameters.Get(pingsOf), Did: pingMessages.of(r)}
	query := url.Values{"limit": {listRows}}
	if v.Of != "" {
		query.Set("key", v.Of)
	}
	if from := parameters.Get(pingsFrom); from != "" {
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
		v.Refused = "Ping URLs are secrets. A token that may change rules is required."
	case errors.As(err, &problem) && problem.Status == http.StatusNotFound:
		v.Refused = problem.Detail
	case err != nil:
		return nil, err
	}
	for _, a := range page.Items {
		if strings.HasPrefix(a.URL, "/") {
			a.URL = nodeURL(r) + a.URL
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
	for _, p := range last.Items {
		v.Last = append(v.Last, receivedPing{p})
	}
	return v, nil
}

// receivedPing is an entry of the ping log for display.
type receivedPing struct{ web.PingEntry }

// lastLineShown limits the shown last line of a body, in characters.
const lastLineShown = 160

// LastLine returns the last line of the body that has text, because a failed run ends with its error.
func (p receivedPing) LastLine() string {
	body := strings.TrimSpace(p.Body)
	return clipped(strings.TrimSpace(body[strings.LastIndexByte(body, '\n')+1:]), lastLineShown)
}

// IsWhole reports whether the last line is the whole body.
func (p receivedPing) IsWhole() bool {
	return p.Body != "" && p.Omitted() == 0 && p.LastLine() == strings.TrimSpace(p.Body)
}

// Omitted returns the number of bytes of the body that are not stored.
func (p receivedPing) Omitted() int { return max(0, p.BodySize-len(p.Body)) }
