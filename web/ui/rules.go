package ui

import (
	"net/http"
	"slices"

	"deadman/web"
)

// rulesView is the rules: those that something is wrong with first, and then by name.
type rulesView struct {
	listing
	may
	Rules []web.Rule
	Did   string // what was just done to one; empty: nothing
}

// States are what a list of rules is narrowed by, and how they are called on pages.
func (rulesView) States() [][2]string {
	return [][2]string{{"enabled", "at work"}, {"paused", "paused"}, {"disabled", "resting"}, {"over", "over"}, {"unreadable", "can't be read"}}
}

func (u *UI) rules(c client, r *http.Request) (view, error) {
	v := rulesView{listing: listingOf(r, "text", "entity", "state"), Did: deeds{"deleted": "The rule was deleted."}.of(r)}
	var err error
	if v.may, err = c.may(); err != nil {
		return view{}, err
	}
	query := v.query()
	query.Set("limit", "200")
	var page web.Page[web.Rule]
	if err := c.get("/rules", query, &page); err != nil {
		return view{}, err
	}
	slices.SortStableFunc(page.Items, func(a, b web.Rule) int { return trouble(b) - trouble(a) })
	v.Rules = page.Items
	v.goesOn(page.Next)
	return view{Title: "Rules", Body: v}, nil
}

// trouble is how much is wrong with a rule.
func trouble(r web.Rule) int {
	switch {
	case r.Problem != "":
		return 3
	case r.Jobs != nil && r.Jobs.Undetermined+r.Jobs.GaveUp > 0:
		return 2
	case !r.PausedAt.IsZero():
		return 1
	}
	return 0
}
