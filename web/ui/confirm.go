package ui

import (
	"cmp"
	"net/http"
)

// confirmation is the question before an action that can't be undone.
type confirmation struct {
	Title     string
	Text      string   // consequence of the action
	Names     []string // objects of the action; empty: Says names them
	At        string   // address of the form
	Form      []field  // hidden fields
	Do        string   // label of the confirming button
	Dangerous bool     // the action loses data
	Keep      string   // label of the link back
	Back      string
	Then      string // page after the action; empty: Back

	WithReason bool // the form has a field for the reason
	Reason     string
}

// field is a hidden field of a form.
type field struct{ Name, Value string }

// confirm shows the confirmation page.
func (u *UI) confirm(w http.ResponseWriter, r *http.Request, q confirmation) {
	q.Form = append(q.Form, field{"sure", "yes"}, field{"back", cmp.Or(q.Then, q.Back)})
	u.render(w, r, http.StatusOK, "confirmation", view{Title: q.Title, Body: q, Still: true}, "")
}
