package ui

import (
	"cmp"
	"net/http"
)

// confirmation is a question that is asked before something is done that can't be undone.
type confirmation struct {
	Title string
	Says  string   // what comes of it
	Names []string // what it is done to; empty: Says tells
	At    string   // where the answer goes
	Form  []field  // what goes with it
	Do    string   // on the button that does it
	Grave bool     // something is lost by it
	Keep  string   // on the way back
	Back  string
	Then  string // where one goes once it is done; empty: Back
}

// field is a field of a form that nobody sees.
type field struct{ Name, Value string }

// ask asks.
func (u *UI) ask(w http.ResponseWriter, r *http.Request, q confirmation) {
	q.Form = append(q.Form, field{"sure", "yes"}, field{"back", cmp.Or(q.Then, q.Back)})
	u.render(w, r, http.StatusOK, "sure", view{Title: q.Title, Body: q, Still: true}, "")
}
