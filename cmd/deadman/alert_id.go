package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// shownOfID is the number of trailing hex digits of an id in lists. An id begins with its time, which alerts of a
// slot share, and ends with a hash.
const shownOfID = 8

func shortID(id alerts.ID) string {
	s := id.String()
	return s[len(s)-shownOfID:]
}

// alertOf resolves an id, or a part of it that only one of the newest alerts contains.
func (c *client) alertOf(ctx context.Context, id string) (alerts.ID, error) {
	whole, err := uuid.Parse(id)
	if err == nil {
		return whole, nil
	}
	if !alerts.IsPartialID(id) {
		return whole, usage("%q is no id of an alert, nor %d or more of its last letters, as deadman alert list shows them", id, alerts.MinPartialID)
	}
	page, _, err := get[web.Page[web.Alert]](ctx, c, "/alerts", url.Values{"limit": {strconv.Itoa(futurejobs.MaxLimit)}})
	if err != nil {
		return whole, err
	}
	var found []string
	for _, a := range page.Items {
		if alerts.MatchesPartialID(a.ID, id) {
			whole, found = a.ID, append(found, a.ID.String())
		}
	}
	switch len(found) {
	case 0:
		return whole, fmt.Errorf("no id of the last %s ends with %s; give the whole id, or RULE KEY to alert ack", number(len(page.Items), "alert"), id)
	case 1:
		return whole, nil
	}
	return whole, usage("%d alerts have %s in their ids; give more of it: %s", len(found), id, strings.Join(found[:min(len(found), 5)], ", "))
}

// lastAlert returns the newest alert of the job of a rule and a key.
func (c *client) lastAlert(ctx context.Context, of []string) (id alerts.ID, err error) {
	path, query := jobPath(of)
	j, _, err := get[web.Job](ctx, c, path, query)
	switch {
	case err != nil:
		return id, err
	case len(j.Alerts) == 0:
		return id, fmt.Errorf("nothing was said yet about the wait of rule %s for %s, so there is nothing to acknowledge; deadman job snooze lets it rest", of[0], of[1])
	}
	return j.Alerts[len(j.Alerts)-1], nil
}
