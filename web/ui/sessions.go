package ui

import (
	"net/http"
	"net/url"
	"strings"

	"deadman/web"
)

// sessionsAt is the path of the sessions.
const sessionsAt = "/sessions"

// sessionsView is the list of login sessions, with an action that ends them.
type sessionsView struct {
	listing
	Sessions []web.Session
	Others   bool // the visitor also sees sessions of other tokens
	Done     *bulkResult
	Self     web.TokenSelf
}

// Access returns the permissions of the visitor as facts, by name.
func (v sessionsView) Access() []ruleFact {
	self := v.Self
	name, rules := self.Name, "all"
	if self.Open {
		name = "none (open node)"
	}
	if self.Prefix != "" {
		rules = self.Prefix + "*"
	}
	all := []ruleFact{{"Login", name}, {"Scopes", strings.Join(self.Scopes, ", ")}, {"Rules", rules}}
	for _, bound := range []struct {
		name string
		list []string
	}{{"Subjects", self.Subjects}, {"Publish", self.Publish}, {"Sources", self.Sources}, {"Handlers", self.Handlers}} {
		text := strings.Join(bound.list, ", ")
		switch {
		case bound.list == nil:
			text = "all"
		case text == "":
			text = "none"
		}
		all = append(all, ruleFact{bound.name, text})
	}
	return all
}

// sessionPages serves the page of sessions, and its actions.
type sessionPages struct{ *UI }

func (u sessionPages) sessions(c client, r *http.Request) (view, error) {
	may, err := c.may()
	if err != nil {
		return view{}, err
	}
	var self web.TokenSelf
	if err := c.get("/tokens/self", nil, &self); err != nil {
		return view{}, err
	}
	v := sessionsView{Self: self, listing: listingOf(r), Others: may.DeadLetters(), Done: flashOf(r.URL.Query(), "session", ended)}
	var page web.Page[web.Session]
	if err := c.get(sessionsAt, v.query(), &page); err != nil {
		return view{}, err
	}
	v.Sessions = page.Items
	v.goesOn(page.Next)
	return view{Title: "Sessions", Body: v, Still: true}, nil
}

// handleSessionsAction ends the chosen sessions.
func (u sessionPages) handleSessionsAction(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	d, chosen := bulkResult{Noun: "session", Verb: ended, Back: sessionsAt}, r.PostForm["session"]
	if u.noneChosen(w, r, d, chosen) {
		return
	}
	c := client{u.api, r}
	d.each(r, chosen, func(id string) error {
		return c.do(http.MethodDelete, sessionsAt+"/"+url.PathEscape(id), nil, nil, nil)
	})
	u.report(w, r, d)
}
