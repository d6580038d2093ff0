package ui

import (
	"net/http"

	"deadman/web"
)

// historyView is the jobs that ended, newest first.
type historyView struct {
	listing
	Ended []web.Ended
}

func (u *UI) history(c client, r *http.Request) (view, error) {
	v := historyView{listing: listingOf(r, "rule", "entity", "key", "outcome")}
	var page web.Page[web.Ended]
	if err := c.get("/history", v.query(), &page); err != nil {
		return view{}, err
	}
	v.Ended = page.Items
	v.goesOn(page.Next)
	return view{Title: "History", Body: v}, nil
}
