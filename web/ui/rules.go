package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"deadman/web"
)

// rulesView is the list of rules: those with problems first, then by name.
type rulesView struct {
	listing
	permissions
	Rules  []ruleLine
	Unread bool   // more rules exist than are read
	Did    string // result of the last action; empty: none
}

// States lists the states for the filter with their labels.
func (rulesView) States() [][2]string {
	return [][2]string{{"enabled", "enabled"}, {"paused", "paused"}, {"disabled", "disabled"}, {"schedule_ended", "schedule ended"}, {"never_reported", "never reported"}, {"unreadable", "unreadable"}}
}

func (u *UI) rules(c client, r *http.Request) (view, error) {
	v := rulesView{listing: listingOf(r, "text", "entity", "state"), Did: flashMessages{"deleted": "Rule deleted."}.of(r)}
	var err error
	if v.permissions, err = c.may(); err != nil {
		return view{}, err
	}
	begin, err := v.begins()
	if err != nil {
		return view{}, err
	}
	query := v.query()
	query.Del("cursor")
	all, more, err := c.allRules(query)
	if err != nil {
		return view{}, err
	}
	slices.SortStableFunc(all, func(a, b web.Rule) int { return problemRank(b) - problemRank(a) })
	groups, err := alertClient{c}.groups("rule", url.Values{})
	if err != nil {
		return view{}, err
	}
	loudest := loudestOf(groups)
	end := min(begin+rulesRows, len(all))
	v.Unread = more
	for _, r := range all[min(begin, end):end] {
		v.Rules = append(v.Rules, ruleLine{Rule: r, Severity: loudest[r.Name]})
	}
	if end < len(all) {
		v.goesOn(strconv.Itoa(end))
	}
	return view{Title: "Rules", Body: v}, nil
}

// rulesRows is the number of rules per page.
const rulesRows = 200

// begins returns the offset of the page. The page has its own order, so it can't use the API's cursors.
func (v rulesView) begins() (int, error) {
	if v.cursor == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v.cursor)
	if err != nil || n < 0 {
		return 0, &web.Problem{Status: http.StatusBadRequest, Type: web.BadCursor.URN()}
	}
	return n, nil
}

// rulePages bounds the pages of rules that are read, of 500 rules each. Live pages read them every two seconds.
const rulePages = 10

// allRules reads the rules of a query by name. more reports that the limit cut the list.
func (c client) allRules(query url.Values) (all []web.Rule, more bool, err error) {
	query.Set("limit", "500")
	for range rulePages {
		var page web.Page[web.Rule]
		if err := c.get("/rules", query, &page); err != nil {
			return nil, false, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, false, nil
		}
		query.Set("cursor", page.Next)
	}
	return all, true, nil
}

// problemRank ranks the problems of a rule.
func problemRank(r web.Rule) int {
	switch {
	case r.Problem != "":
		return 4
	case r.Jobs != nil && r.Jobs.OpenAlerts > 0:
		return 3
	case r.Jobs != nil && r.Jobs.Undetermined+r.Jobs.GaveUp > 0:
		return 2
	case !r.PausedAt.IsZero(), r.NeverReported:
		return 1
	}
	return 0
}
