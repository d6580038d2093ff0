package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// versionsView lists the versions of a rule, newest first, and the diff of two of them.
type versionsView struct {
	Name     string
	Versions []web.RuleVersion
	From, To int32
	Changed  []diffLine
	Deleted  bool
	Next     string // address of older versions; empty: none
}

// Several reports whether the rule has versions to compare.
func (v versionsView) Several() bool { return len(v.Versions) > 1 || v.From != v.To }

// versionRows is the number of versions per page.
const versionRows = 50

func (u *UI) versions(c client, r *http.Request) (view, error) {
	v := versionsView{Name: chi.URLParam(r, "name")}
	query := r.URL.Query()
	parameters := url.Values{"limit": {fmt.Sprint(versionRows)}}
	if cursor := query.Get("cursor"); cursor != "" {
		parameters.Set("cursor", cursor)
	}
	var page web.Page[web.RuleVersion]
	if err := c.get(rulePath(v.Name)+"/versions", parameters, &page); err != nil {
		return view{}, err
	}
	v.Versions = page.Items
	if page.Next != "" {
		v.Next = "?" + url.Values{"cursor": {page.Next}}.Encode()
	}
	v.Deleted = len(v.Versions) > 0 && !v.Versions[0].DeletedAt.IsZero()
	newest := int32(0)
	if len(v.Versions) > 0 {
		newest = v.Versions[0].Version
	}
	v.From, v.To = versionOf(query.Get("from"), max(newest-1, 1)), versionOf(query.Get("to"), newest)
	if v.From != v.To {
		var err error
		if v.Changed, err = (versionClient{c}).diff(v.Name, v.From, v.To); err != nil {
			return view{}, err
		}
	}
	return view{Title: "Versions of " + v.Name, Body: v, Still: true}, nil
}

// versionOf parses a version in a query, or returns other if the query has none.
func versionOf(text string, other int32) int32 {
	var n int32
	if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
		return other
	}
	return n
}

// versionClient reads the versions of rules.
type versionClient struct{ client }

// versions reads the newest versions of a rule.
func (c versionClient) versions(name string, limit int) ([]web.RuleVersion, error) {
	var page web.Page[web.RuleVersion]
	err := c.get(rulePath(name)+"/versions", url.Values{"limit": {fmt.Sprint(limit)}}, &page)
	return page.Items, err
}

// diff reads the diff between two versions of a rule. With 0 and 0 it compares the newest two.
func (c versionClient) diff(name string, from, to int32) ([]diffLine, error) {
	query := url.Values{}
	for parameter, version := range map[string]int32{"from": from, "to": to} {
		if version > 0 {
			query.Set(parameter, fmt.Sprint(version))
		}
	}
	var diff web.RuleDiff
	err := c.get(rulePath(name)+"/diff", query, &diff)
	return diffLines(diff.Diff), err
}

// diffLine is a line of a unified diff. The text keeps the sign, as an alternative to colors.
type diffLine struct {
	Kind string // added, removed, place or same
	Text string
}

// diffLines splits a unified diff into lines and drops the header.
func diffLines(diff string) (all []diffLine) {
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\n")
		kind := "same"
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			if len(all) == 0 {
				continue
			}
			kind = map[byte]string{'-': "removed", '+': "added"}[line[0]]
		case strings.HasPrefix(line, "@@"):
			kind = "place"
		case strings.HasPrefix(line, "+"):
			kind = "added"
		case strings.HasPrefix(line, "-"):
			kind = "removed"
		}
		all = append(all, diffLine{kind, line})
	}
	return all
}
