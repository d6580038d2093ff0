package ui

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"deadman/web"
)

// errorView is an error page: the error, the remedy, and links to continue.
type errorView struct {
	Title   string
	Details []string // in sentences; none: the title is enough
	Do      string   // empty: Details is enough
	Way     link
	More    []link            // further links
	Gone    *ruleDeletedError // set if the requested rule is deleted
}

// linkedError is an error with links to continue.
type linkedError interface {
	error
	problem() *web.Problem
	ways() []link
}

// link is a path with its text.
type link struct{ Path, Text string }

// parentPage is a list that error pages link to.
type parentPage struct {
	Under string // prefix of the addresses it covers
	Noun  string // noun of a member with its own address; empty: none
	link
}

// homes are the lists that error pages link to.
var homes = []parentPage{
	{"/alerts/all", "", link{alertLogAt, "All alerts"}},
	{alertsAt, "alert", link{alertsAt, "Open alerts"}},
	{"/jobs", "", link{"/jobs", "All pending checks"}},
	{"/entities", "entity", link{"/jobs", "All pending checks"}},
	{"/rules", "rule", link{"/rules", "All rules"}},
	{"/new-rule", "", link{"/rules", "All rules"}},
	{"/try-rule", "", link{"/rules", "All rules"}},
	{calendarsAt, "calendar", link{calendarsAt, "All calendars"}},
	{"/new-calendar", "", link{calendarsAt, "All calendars"}},
	{mutesAt, "", link{mutesAt, "All mutes"}},
	{"/history", "", link{"/history", "Full history"}},
	{lettersAt, "dead letter", link{lettersAt, "All dead letters"}},
	{"/health", "", link{"/health", "Health"}},
	{docsAt, "", link{docsAt, "Documentation"}},
	{sessionsAt, "", link{sessionsAt, "All sessions"}},
}

// homeOf returns the list of an address, and the member named there.
func homeOf(path string) (h parentPage, name string) {
	for _, h := range homes {
		if rest, is := strings.CutPrefix(path, h.Under); is && (rest == "" || rest[0] == '/') {
			name, _, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
			return h, name
		}
	}
	return parentPage{link: link{"/", "Overview"}}, ""
}

// refusalOf returns the error page of a problem at an address.
func refusalOf(p *web.Problem, at *url.URL) errorView {
	of, name := homeOf(at.Path)
	no := errorView{Title: p.Title, Details: problemLines(p), Way: of.link}
	in := func(part string) bool {
		return slices.ContainsFunc(p.Errors, func(d web.ProblemDetail) bool { return strings.HasPrefix(d.Location, part) })
	}
	switch {
	case p.Title != http.StatusText(p.Status): // keep a title of the page's own
	case p.Type == web.BadCursor.URN():
		no.Title, no.Details, no.Do = "Invalid page address", nil, "The address belongs to another list or is incomplete. Start at the first page."
	case of.Noun != "" && name != "" && (p.Status == http.StatusNotFound || in("path.")):
		no.Title, no.Details, no.Do = "No "+of.Noun+" "+name, nil, "The address may be mistyped, or the retention time has passed."
	case p.Status == http.StatusUnauthorized:
		no.Title, no.Details, no.Way = "Log in first", nil, link{"/login", "Log in"}
	case p.Status == http.StatusForbidden:
		no.Title, no.Do, no.Way = "Your token has no access to this page", "Log in with another token.", link{"/login", "Log in"}
	case p.Status >= http.StatusInternalServerError:
		no.Title, no.Way = "The node cannot answer now", link{"/health", "Health"}
	case in("query."):
		no.Title, no.Do = "Invalid address", "Use the filters of the page."
	default:
		no.Title = "The request failed"
	}
	return no
}

// problemLines returns the errors of a problem as sentences, without duplicates.
func problemLines(p *web.Problem) (all []string) {
	for _, e := range p.Errors {
		if one := sentence(detail(e)); !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	if len(all) == 0 && p.Detail != "" {
		all = append(all, sentence(p.Detail))
	}
	return all
}

// sentence turns a text of the API into a sentence.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if !strings.ContainsAny(text[len(text)-1:], ".!?") {
		text += "."
	}
	return text
}

// Refuse answers with the page of a problem. alone omits the navigation, for a request without a known user.
func (u *UI) Refuse(w http.ResponseWriter, r *http.Request, p *web.Problem, alone bool) {
	no := refusalOf(p, r.URL)
	switch {
	case p.Status == http.StatusNotFound:
		no.Title, no.Details, no.Do = strings.TrimSuffix(sentence(p.Detail), "."), nil, "The address may be mistyped."
	case alone && p.Title != http.StatusText(p.Status): // its own title, for a visitor without permissions
		no.Way = link{"/login", "Log in"}
	case alone && p.Status != http.StatusUnauthorized:
		no = errorView{Title: "The node rejected the request", Details: problemLines(p)} // no token would help
	}
	u.refuse(w, r, p.Status, no, alone)
}

func (u *UI) refuse(w http.ResponseWriter, r *http.Request, status int, no errorView, alone bool) {
	no.Title = escapeControls(no.Title)
	u.render(w, r, status, "problem", view{Title: no.Title, Body: no, Alone: alone}, "")
}

// fail answers with the error page of err.
func (u *UI) fail(w http.ResponseWriter, r *http.Request, err error) {
	if known := linkedError(nil); errors.As(err, &known) {
		p := known.problem()
		no, ways := refusalOf(p, r.URL), known.ways()
		no.Way, no.More = ways[0], ways[1:]
		no.Gone, _ = known.(*ruleDeletedError)
		u.refuse(w, r, p.Status, no, false)
		return
	}
	p := new(web.Problem)
	if !errors.As(err, &p) {
		u.Log.ErrorContext(r.Context(), "creating a page failed", "path", r.URL.Path, "err", err)
		p = &web.Problem{Status: http.StatusInternalServerError, Title: "This page cannot be shown", Detail: "See the log of the node for the reason."}
	}
	p.Title = cmp.Or(p.Title, http.StatusText(p.Status))
	u.refuse(w, r, p.Status, refusalOf(p, r.URL), false)
}
