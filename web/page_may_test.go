package web_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
)

// TestPagesShowPermittedActions checks that a page shows the buttons of its visitor's permissions, and no others, and that
// other actions are refused with a sentence and change nothing.
func TestPagesShowPermittedActions(t *testing.T) {
	s := newFixture(t, closedNode)
	s.createJob("1", time.Hour, `{}`)
	a := s.alert("1", "it waits", time.Hour)
	letter := s.writeDeadLetter(1, "orders.created", `{}`)
	visitors := map[string][]string{
		"reader":  s.newToken("reader", "", access.Read),
		"answers": s.newToken("answers", "", access.OnCall),
		"some":    s.newToken("some", "order-*", access.OnCall),
		"all":     s.newToken("all", "", access.Admin),
	}
	letterPage := fmt.Sprintf("/dead-letters/%d", letter)
	for _, c := range []struct {
		path, button string
		may          string
	}{
		{"/alerts", `value="ack"`, "answers some all"},
		{"/alerts", `>Acknowledge all<`, "answers some all"},
		{"/alerts", `>Mute…<`, "answers all"},
		{"/alerts/" + a.ID.String(), `value="ack"`, "answers some all"},
		{"/alerts/" + a.ID.String(), `>Mute rule…<`, "answers all"},
		{"/mutes", `value="make"`, "answers all"},
		{"/dead-letters", `value="drop"`, "all"},
		{letterPage, `value="retry"`, "all"},
	} {
		for name, header := range visitors {
			page := requestPath(t, s.Server, "GET", c.path, "", header...)
			if shown := strings.Contains(page.body, c.button); shown != strings.Contains(c.may, name) {
				t.Errorf("%s, seen by %s: %s is shown: %t (%d)", c.path, name, c.button, shown, page.StatusCode)
			}
		}
	}
	for _, c := range []struct{ path, form string }{
		{"/alerts", "do=ack&alert=" + a.ID.String()},
		{"/alerts/" + a.ID.String(), "do=ack"},
		{"/mutes", "do=make&rule=x&for=1h&reason=x"},
		{"/dead-letters", fmt.Sprintf("do=retry&letter=%d", letter)},
		{"/dead-letters", "do=drop&meant=yes&sure=yes"},
		{letterPage, "do=drop&sure=yes"},
	} {
		page := requestPath(t, s.Server, "POST", c.path, c.form, append([]string{"Content-Type", "application/x-www-form-urlencoded"}, visitors["reader"]...)...)
		if !strings.Contains(page.body, "he token reader does not have the scope") {
			t.Errorf("%s with %s: %d %s", c.path, c.form, page.StatusCode, page.body)
		}
	}
	if page := requestPath(t, s.Server, "GET", letterPage, "", visitors["all"]...); page.StatusCode != 200 {
		t.Errorf("the letter is gone: %d", page.StatusCode)
	}
	if listed, err := s.store.Job(t.Context(), s.rule.Name, "1"); err != nil || listed.Ack != nil {
		t.Errorf("it was acknowledged: %+v %v", listed.Ack, err)
	}
	if mutes, err := s.store.Mutes(t.Context()); err != nil || len(mutes) != 0 {
		t.Errorf("%v was muted: %v", mutes, err)
	}
}

// TestReturnLinksStayOnNode checks that a return link to another host is ignored.
func TestReturnLinksStayOnNode(t *testing.T) {
	s := newFixture(t)
	letter := s.writeDeadLetter(1, "orders.created", `{}`)
	for _, back := range []string{"https://example.org/", "//example.org/", `/\example.org`, "javascript:alert(1)"} {
		form := url.Values{"do": {"drop"}, "letter": {fmt.Sprint(letter)}, "back": {back}}
		page := requestPath(t, s.Server, "POST", "/dead-letters", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		if !strings.Contains(page.body, "Drop 1 dead letter?") || strings.Contains(page.body, "example.org/\"") || strings.Contains(page.body, "javascript:") {
			t.Errorf("%s: %d %s", back, page.StatusCode, page.body)
		}
	}
}
