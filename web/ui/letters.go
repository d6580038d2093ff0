package ui

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// lettersView is the events that could not be taken in, newest first.
type lettersView struct {
	listing
	Letters []web.DeadLetter
}

func (u *UI) letters(c client, r *http.Request) (view, error) {
	v := lettersView{listing: listingOf(r, "rule", "subject")}
	var page web.Page[web.DeadLetter]
	if err := c.get("/dead-letters", v.query(), &page); err != nil {
		return view{}, err
	}
	v.Letters = page.Items
	v.goesOn(page.Next)
	return view{Title: "Dead letters", Body: v}, nil
}

// letterView is one of them.
type letterView struct {
	web.DeadLetter
	Text string // its body, as people read it
}

func (u *UI) letter(c client, r *http.Request) (view, error) {
	var l web.DeadLetter
	if err := c.get("/dead-letters/"+url.PathEscape(chi.URLParam(r, "id")), nil, &l); err != nil {
		return view{}, err
	}
	v := letterView{DeadLetter: l, Text: indented([]byte(l.Body))}
	if v.Text == "" {
		v.Text = base64.StdEncoding.EncodeToString(l.BodyBase64)
	}
	return view{Title: "Dead letter " + strconv.FormatInt(l.ID, 10), Body: v}, nil
}

// letterDeed tries a dead letter again, or drops it.
func (u *UI) letterDeed(w http.ResponseWriter, r *http.Request) {
	path, method := "/dead-letters/"+url.PathEscape(chi.URLParam(r, "id")), http.MethodDelete
	if r.PostFormValue("do") == "retry" {
		path, method = path+"/retry", http.MethodPost
	}
	if err := (client{u.api, r}).do(method, path, nil, nil, nil); err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/dead-letters", http.StatusSeeOther)
}
