package web_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestUnknownActionsAreRefused checks that a form with an unknown action is refused, and changes nothing.
func TestUnknownActionsAreRefused(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Hour, `{}`)
	a := s.alert("1", "it waits", time.Hour)
	letter := fmt.Sprint(s.writeDeadLetter(1, "orders.created", `{}`))
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
		if got := postForm(t, s, c.path, c.form); got.StatusCode != 400 || !strings.Contains(got.body, "No action was taken") || !strings.Contains(got.body, "The form has no action: ") {
			t.Errorf("%s with %v: %d %s", c.path, c.form, got.StatusCode, got.body)
		}
	}
	if listed, err := s.store.Job(t.Context(), s.rule.Name, "1"); err != nil || listed.Ack != nil {
		t.Errorf("it was acknowledged: %+v %v", listed.Ack, err)
	}
	if got := requestPath(t, s.Server, "GET", "/dead-letters/"+letter, ""); got.StatusCode != 200 {
		t.Errorf("the letter is gone: %d", got.StatusCode)
	}
}

// TestActionWithoutSelection checks that a form without a selection leads back to its page, with a message.
func TestActionWithoutSelection(t *testing.T) {
	s := newFixture(t)
	for _, c := range []struct{ path, action, noun string }{
		{"/alerts", "ack", "alerts"},
		{"/alerts", "unack", "alerts"},
		{"/mutes", "end", "mutes"},
		{"/dead-letters", "retry", "dead letters"},
		{"/dead-letters", "drop", "dead letters"},
	} {
		got := postForm(t, s, c.path, url.Values{"do": {c.action}, "back": {c.path + "?done=3"}})
		at := got.Header.Get("Location")
		if got.StatusCode != 303 || at != c.path+"?did=nothing" {
			t.Errorf("%s of %s leads to %d %s", c.action, c.path, got.StatusCode, at)
			continue
		}
		if page := requestPath(t, s.Server, "GET", at, ""); !strings.Contains(page.body, "No "+c.noun+" selected.") {
			t.Errorf("%s: %d %s", at, page.StatusCode, page.body)
		}
	}
}

// TestMuteErrorsNameFormFields checks that the error for a refused mute names the fields of the form instead of the
// API's body.
func TestMuteErrorsNameFormFields(t *testing.T) {
	s := newFixture(t)
	long := strings.Repeat("k", 513)
	for _, c := range []struct {
		form      url.Values
		wantTexts []string
	}{
		{url.Values{"for": {"1h"}, "reason": {"x"}}, []string{"Set a rule, entity, key, severity or label"}},
		{url.Values{"rule": {"a"}, "for": {"1h"}}, []string{"Reason: enter"}},
		{url.Values{"rule": {"a"}, "for": {"1h"}, "reason": {long}}, []string{"Reason: enter 1 to 500 characters."}},
		{url.Values{"rule": {"a"}, "reason": {"x"}}, []string{"Duration: select one."}},
		{url.Values{"rule": {"a"}, "reason": {"x"}, "for": {"soon"}}, []string{"Duration: ", "90s"}},
		{url.Values{"rule": {"a"}, "reason": {"x"}, "for": {"3000d"}}, []string{"Duration: ", "is not within a year from now"}},
		{url.Values{"key": {long}, "reason": {"x"}, "for": {"1h"}}, []string{"Match: key: a pattern has 1 to 512 bytes"}},
		{url.Values{"labels": {"=north"}, "reason": {"x"}, "for": {"1h"}}, []string{"Match: a field has no name"}},
	} {
		c.form.Set("do", "make")
		got := postForm(t, s, "/mutes", c.form)
		for _, wantText := range append(c.wantTexts, "The mute was not created:") {
			if got.StatusCode != 422 || !strings.Contains(got.body, wantText) || strings.Contains(got.body, "body.") || strings.Contains(got.body, "{&#34;for") {
				t.Errorf("%v: %d, and not %q: %s", c.form, got.StatusCode, wantText, got.body)
			}
		}
	}
	if mutes, err := s.store.Mutes(t.Context()); err != nil || len(mutes) != 0 {
		t.Errorf("%v was muted: %v", mutes, err)
	}
}
