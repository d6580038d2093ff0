package ui

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// lettersView is the list of dead letters, newest first, with their reasons.
type lettersView struct {
	listing
	permissions
	Letters []web.DeadLetter
	Reasons []reason
	Counted web.DeadLetterReasons
	Done    *bulkResult // result of the last action; nil: none
}

// reason is a reason of dead letters.
type reason struct {
	web.DeadLetterReason
	At string // the list narrowed to the reason
}

// lettersAt is the path of the dead letters.
const lettersAt = "/dead-letters"

// letterFilter names the filters of dead letters.
var letterFilter = []string{"rule", "subject", "reason"}

// letterPages serves the pages of dead letters.
type letterPages struct{ *UI }

func (u letterPages) letters(c client, r *http.Request) (view, error) {
	v := lettersView{listing: listingOf(r, letterFilter...), Done: flashOf(r.URL.Query(), "dead letter", takenIn, dropped)}
	var err error
	if v.permissions, err = c.may(); err != nil {
		return view{}, err
	}
	var page web.Page[web.DeadLetter]
	if err := c.get(lettersAt, v.query(), &page); err != nil {
		return view{}, err
	}
	v.Letters = page.Items
	v.goesOn(page.Next)
	narrowed := v.query()
	narrowed.Del("limit")
	narrowed.Del("cursor")
	if err := c.get(lettersAt+"/reasons", narrowed, &v.Counted); err != nil {
		return view{}, err
	}
	for _, counted := range v.Counted.Items {
		v.Reasons = append(v.Reasons, reason{counted, alike(counted.Rule, counted.Reason)})
	}
	return view{Title: "Dead letters", Body: v}, nil
}

// letterView is the page of one dead letter.
type letterView struct {
	web.DeadLetter
	permissions
	Text   string // its body for display
	Binary bool   // the body is not text and is shown as a hex dump
	Alike  string // the list with the same rule and reason
}

func (u letterPages) letter(c client, r *http.Request) (view, error) {
	var l web.DeadLetter
	if err := c.get(letterAt(chi.URLParam(r, "id")), nil, &l); err != nil {
		return view{}, err
	}
	v := letterView{DeadLetter: l, Alike: alike(l.Rule, l.Reason)}
	v.Text, v.Binary = bodyOf(l)
	var err error
	v.permissions, err = c.may()
	return view{Title: "Dead letter " + strconv.FormatInt(l.ID, 10), Body: v}, err
}

// bodyOf returns the body of a dead letter for display: indented JSON, plain text, or a dump in the format of hexdump
// -C.
func bodyOf(l web.DeadLetter) (text string, binary bool) {
	body := l.BodyBase64
	if body == nil {
		body = []byte(l.Body)
	}
	switch {
	case json.Valid(body):
		return indented(body), false
	case utf8.Valid(body):
		return string(body), false
	}
	return hex.Dump(body), true
}

// alike returns the address of the dead letters with a rule and a reason.
func alike(rule, reason string) string {
	query := url.Values{"reason": {reason}}
	if rule != "" {
		query.Set("rule", rule)
	}
	return lettersAt + "?" + query.Encode()
}

func letterAt(id string) string { return lettersAt + "/" + url.PathEscape(id) }
