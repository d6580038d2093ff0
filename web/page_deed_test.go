package web_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// A form that asks for what is not known is refused, and changes nothing.
func TestUnknownDeedsAreRefused(t *testing.T) {
	s := newStand(t)
	s.place("1", time.Hour, `{}`)
	a := s.alert("1", "it waits", time.Hour)
	letter := fmt.Sprint(s.letter(1, "orders.created", `{}`))
	for _, c := range []struct {
		path string
		form url.Values
	}{
		{"/alerts", url.Values{"alert": {a.ID.String()}}},
		{"/alerts", url.Values{"alert": {a.ID.String()}, "do": {"cancel"}}},
		{"/alerts", url.Values{"by": {"rule"}, "group": {"order-unshipped"}, "seen": {a.ID.String()}, "do": {"mute"}}},
		{"/alerts/" + a.ID.String(), url.Values{}},
		{"/alerts/" + a.ID.String(), url.Values{"do": {"acknowledge"}}},
		{"/mutes", url.Values{"do": {"begin"}}},
		{"/dead-letters", url.Values{"letter": {letter}, "do": {"keep"}}},
		{"/dead-letters/" + letter, url.Values{}},
	} {
		if got := post(t, s, c.path, c.form); got.StatusCode != 400 || !strings.Contains(got.body, "Nothing was done") || !strings.Contains(got.body, "The form says not whether") {
			t.Errorf("%s with %v: %d %s", c.path, c.form, got.StatusCode, got.body)
		}
	}
	if listed, err := s.store.Job(t.Context(), s.rule.Name, "1"); err != nil || listed.Ack != nil {
		t.Errorf("it was acknowledged: %+v %v", listed.Ack, err)
	}
	if got := do(t, s.Server, "GET", "/dead-letters/"+letter, ""); got.StatusCode != 200 {
		t.Errorf("the letter is gone: %d", got.StatusCode)
	}
}

// A form with nothing chosen leads back to where it was, which says so.
func TestNothingChosen(t *testing.T) {
	s := newStand(t)
	for _, c := range []struct{ path, deed, noun string }{
		{"/alerts", "ack", "alerts"}, {"/alerts", "unack", "alerts"}, {"/mutes", "end", "mutes"},
		{"/dead-letters", "retry", "dead letters"}, {"/dead-letters", "drop", "dead letters"},
	} {
		got := post(t, s, c.path, url.Values{"do": {c.deed}, "back": {c.path + "?done=3"}})
		at := got.Header.Get("Location")
		if got.StatusCode != 303 || at != c.path+"?did=nothing" {
			t.Errorf("%s of %s leads to %d %s", c.deed, c.path, got.StatusCode, at)
			continue
		}
		if page := do(t, s.Server, "GET", at, ""); !strings.Contains(page.body, "Nothing was done: choose some "+c.noun+" first.") {
			t.Errorf("%s: %d %s", at, page.StatusCode, page.body)
		}
	}
}
