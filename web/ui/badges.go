package ui

import (
	"net/http"
	"net/url"
	"strings"

	"deadman/web"
)

// badgeView is the badge that a visitor asked for on the page of a rule.
type badgeView struct {
	web.Badge
	Path string // of the picture on this node
	Name string // text that replaces the picture
}

// badgeRevoked is the value of did after the badges of a rule were revoked.
const badgeRevoked = "badges-revoked"

// badge gets the address of the badge of a key, or of a rule. A URL without a host is completed with that of the request.
func (c client) badge(rule, key string, r *http.Request) (*badgeView, error) {
	v := &badgeView{Name: "state of " + rule}
	if key != "" {
		v.Name = "state of " + escapeControls(key)
	}
	if err := c.do(http.MethodPost, rulePath(rule)+"/badges", nil, web.BadgeRequest{Key: web.Identifier(key)}, &v.Badge); err != nil {
		return nil, err
	}
	at, err := url.Parse(v.URL)
	if err != nil {
		return nil, err
	}
	v.Path = at.Path
	if strings.HasPrefix(v.URL, "/") {
		v.URL = nodeURL(r) + v.URL
	}
	return v, nil
}

// nodeURL returns the address of the node, as the visitor of a request reached it.
func nodeURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// badgesRevokedWarning asks for confirmation before the badges of a rule are revoked.
func badgesRevokedWarning(name string) confirmation {
	return confirmation{
		Title: "Revoke all badges of rule " + name + "?", At: rulePath(name), Form: []field{{"do", "unbadge"}},
		Text: "The badges of the rule and of its keys are no longer found. Badges that are created afterwards have other addresses.",
		Do:   "Revoke badges", Dangerous: true, Keep: "Keep badges", Back: rulePath(name) + "#badges",
	}
}

// showBadge shows a rule with the address of a badge.
func (u rulePage) showBadge(w http.ResponseWriter, r *http.Request, name string) {
	c := client{u.api, r}
	badge, err := c.badge(name, r.PostFormValue("key"), r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	v, err := u.ruleView(c, r, name)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	v.Badge = badge
	v.Trial.example(v.document)
	u.render(w, r, http.StatusOK, "rule", view{Title: name, Body: v}, "")
}
