package web_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/acklinks"
	"deadman/web"
)

// berlin is the zone of the pages of links.
var berlin = time.FixedZone("CET", 3600)

// linkFixture is a closed fixture with links for the channels team and other.
type linkFixture struct {
	*fixture
	off map[string]bool // channels without links
	now time.Time
}

func newLinkFixture(t *testing.T) *linkFixture {
	t.Helper()
	l := &linkFixture{off: make(map[string]bool), now: time.Now()}
	l.fixture = newFixture(t, closedNode, func(o *web.Options, s *fixture) {
		o.AckLinks = &acklinks.Links{
			Store: s.store, Acks: s, Uses: s.store, Now: func() time.Time { return l.now }, Zone: func() *time.Location { return berlin },
			Enabled: func(channel, _ string) bool { return (channel == "team" || channel == "other") && !l.off[channel] },
		}
	})
	return l
}

// raise creates a job with an alert.
func (l *linkFixture) raise(key string) alerts.Alert {
	l.t.Helper()
	l.createJob(key, time.Second, `{}`)
	return l.alert(key, "order "+key+" waits <b>", time.Hour)
}

// link returns the path of a link to an alert.
func (l *linkFixture) link(channel string, id alerts.ID) string {
	l.t.Helper()
	return l.sign(acklinks.Target{Channel: channel, Alert: id, ExpiresAt: l.now.Add(acklinks.Lifetime)})
}

func (l *linkFixture) sign(target acklinks.Target) string {
	l.t.Helper()
	key, err := l.store.AckKey(l.t.Context())
	failOn(l.t, err)
	return acklinks.Prefix + acklinks.Sign(key, target)
}

// ack returns the acknowledgement of a key's job.
func (l *linkFixture) ack(key string) *futurejobs.Ack {
	l.t.Helper()
	job, err := l.store.Job(l.t.Context(), l.rule.Name, key)
	failOn(l.t, err)
	return job.Ack
}

// visit requests the page of a link, and checks the status and a part of the page.
func (l *linkFixture) visit(method, path, body string, status int, want string) answer {
	l.t.Helper()
	a := requestPath(l.t, l.Server, method, path, body, append([]string{"Accept", "text/html"}, formOf...)...)
	if a.StatusCode != status || !strings.Contains(a.body, want) {
		l.t.Errorf("%s %.40s: %d, want %d and %q:\n%s", method, path, a.StatusCode, status, want, a.body)
	}
	return a
}

// A link shows its alert without a login, and only its button acknowledges. A second use says who acknowledged.
func TestLinkAcknowledgesOnce(t *testing.T) {
	l := newLinkFixture(t)
	link := l.link("team", l.raise("a").ID)
	for _, method := range []string{"GET", "HEAD"} { // as mail scanners and previews do
		a := requestPath(t, l.Server, method, link, "", "User-Agent", "Slackbot-LinkExpanding 1.0", "Accept", "text/html")
		h := a.Header
		if a.StatusCode != 200 || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "form-action 'self'") || len(a.Cookies()) != 0 {
			t.Errorf("%s: %d %v", method, a.StatusCode, h)
		}
	}
	page := l.visit("GET", link, "", 200, "order a waits &lt;b&gt;")
	if !strings.Contains(page.body, `<form method="post" action="`+link+`">`) || !strings.Contains(page.body, "rule <bdi>order-unshipped") {
		t.Error(page.body)
	}
	if ack := l.ack("a"); ack != nil {
		t.Fatalf("GET acknowledged: %+v", ack)
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH"} {
		l.visit(method, link, "", 405, "")
	}
	if a := requestPath(t, l.Server, "POST", link, "", "Sec-Fetch-Site", "cross-site"); a.StatusCode != 403 || l.ack("a") != nil {
		t.Errorf("a page of another site acknowledges: %d", a.StatusCode)
	}
	if a := l.visit("POST", link, url.Values{"name": {" Ada\x00\u202e L. "}}.Encode(), 303, ""); a.Header.Get("Location") != link {
		t.Errorf("it leads to %q", a.Header.Get("Location"))
	}
	first := l.ack("a")
	if first == nil || first.By != "channel:team" || first.Note != "by link, as Ada L." || !first.IsUntilResolved() {
		t.Fatalf("%+v", first)
	}
	l.visit("GET", link, "", 200, "Acknowledged by <b><bdi>channel:team</bdi></b> (<bdi>by link, as Ada L.</bdi>) at "+first.At.In(berlin).Format("Mon 2 Jan 2006 15:04 MST")+", until it is resolved.")
	l.visit("POST", link, "name=eve", 303, "")
	if again := l.ack("a"); again.Note != first.Note || !again.At.Equal(first.At) {
		t.Errorf("the second use changed it: %+v", again)
	}
	entries, _, err := l.store.Audit(t.Context(), access.AuditFilter{Action: "alert.ack"})
	failOn(t, err)
	if len(entries) != 1 || entries[0].Actor.Name != "channel:team" || entries[0].Actor.Addr != "127.0.0.1" || !strings.Contains(entries[0].Detail, "by link, as Ada L.") {
		t.Errorf("%+v", entries)
	}
}

// A used link does not acknowledge again after the acknowledgement was removed, in any channel.
func TestUsedLinkStaysUsed(t *testing.T) {
	l := newLinkFixture(t)
	a := l.raise("a")
	l.visit("POST", l.link("team", a.ID), "", 303, "")
	_, err := l.Unacknowledge(t.Context(), a.ID)
	failOn(t, err)
	for _, channel := range []string{"team", "other"} {
		l.visit("POST", l.link(channel, a.ID), "", 409, "The link was used at "+l.now.In(berlin).Format("Mon 2 Jan 2006 15:04 MST"))
	}
	if ack := l.ack("a"); ack != nil {
		t.Errorf("%+v", ack)
	}
	used := l.visit("GET", l.link("team", a.ID), "", 409, "The link was used; its acknowledgement was removed or has ended since; acknowledge the alert in deadman.")
	if strings.Contains(used.body, "<button") || !strings.Contains(used.body, `href="/alerts/`+a.ID.String()+`"`) {
		t.Errorf("the page of a used link offers a use, or leads to no alert: %s", used.body)
	}
	l.visit("GET", l.link("team", l.raise("b").ID), "", 200, "Acknowledge alert")
}

// Too many requests with one link are answered with a page in a browser, and with a problem otherwise.
func TestLinkLimitIsPage(t *testing.T) {
	l := newLinkFixture(t)
	link := l.link("team", l.raise("a").ID)
	for range 100 {
		a := requestPath(t, l.Server, "GET", link, "", "Accept", "text/html")
		if a.StatusCode == 200 {
			continue
		}
		if a.StatusCode != 429 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") || !strings.Contains(a.body, "Too many requests with this link; try again in a second.") {
			t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
		}
		if a := requestPath(t, l.Server, "GET", link, "", "Accept", "application/json"); a.StatusCode == 429 && !strings.HasPrefix(a.Header.Get("Content-Type"), "application/problem+json") {
			t.Errorf("%v %s", a.Header, a.body)
		}
		return
	}
	t.Error("the requests with one link are not limited")
}

func TestForgedLinksAcknowledgeNothing(t *testing.T) {
	l := newLinkFixture(t)
	a, b := l.raise("a"), l.raise("b")
	link := l.link("team", a.ID)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(link, acklinks.Prefix))
	failOn(t, err)
	changed := func(change func(data []byte) []byte) string {
		return acklinks.Prefix + base64.RawURLEncoding.EncodeToString(change(append([]byte{}, raw...)))
	}
	mine := acklinks.Target{Channel: "team", Alert: a.ID, ExpiresAt: l.now.Add(time.Hour)}
	for name, path := range map[string]string{
		"another alert":      changed(func(d []byte) []byte { copy(d[1:], b.ID[:]); return d }),
		"a later end":        changed(func(d []byte) []byte { d[18]++; return d }),
		"another channel":    changed(func(d []byte) []byte { return slices.Concat(d[:25], []byte("other"), d[29:]) }),
		"another kind":       changed(func(d []byte) []byte { d[0] = 2; return d }),
		"another signature":  changed(func(d []byte) []byte { d[len(d)-1] ^= 1; return d }),
		"a short signature":  changed(func(d []byte) []byte { return d[:len(d)-1] }),
		"no signature":       changed(func(d []byte) []byte { return d[:len(d)-16] }),
		"another key":        acklinks.Prefix + acklinks.Sign(make([]byte, acklinks.KeySize), mine),
		"an empty key":       acklinks.Prefix + acklinks.Sign(nil, mine),
		"padding":            link + "=",
		"no base64":          acklinks.Prefix + "%00%20",
		"an alert's id only": acklinks.Prefix + a.ID.String(),
		"too long":           acklinks.Prefix + strings.Repeat("A", 1000),
		"a removed channel":  l.link("gone", a.ID),
		"an unknown alert":   l.link("team", alerts.ID{1}),
	} {
		before := len(path)
		l.visit("POST", path, "", 404, "The link is invalid")
		if before > 0 && (l.ack("a") != nil || l.ack("b") != nil) {
			t.Fatalf("%s acknowledged", name)
		}
	}
}

// Links end with their time, with the links of their channel, and with a revocation.
func TestLinksEnd(t *testing.T) {
	l := newLinkFixture(t)
	admin := l.newToken("root", "", access.Admin)
	a := l.raise("a")
	link := l.link("team", a.ID)
	l.now = l.now.Add(acklinks.Lifetime - time.Second)
	l.visit("GET", link, "", 200, "works without a login until "+l.now.Add(time.Second).In(berlin).Format("Mon 2 Jan 2006 15:04 MST"))
	l.now = l.now.Add(time.Second)
	if a := l.visit("POST", link, "", 410, "The link has expired"); !strings.Contains(a.body, `<a href="/alerts">`) {
		t.Errorf("the page of an expired link leads nowhere:\n%s", a.body)
	}
	link = l.link("team", a.ID)
	l.off["team"] = true
	l.visit("POST", link, "", 404, "the channel team has no such links any more")
	l.off["team"] = false
	l.visit("GET", link, "", 404, "The link is invalid") // refused a moment ago
	link = l.link("other", a.ID)
	for _, no := range [][]string{l.newToken("caller", "", access.OnCall), l.newToken("acme", "acme-", access.Admin)} {
		if a := requestPath(t, l.Server, "DELETE", "/api/v1/channels/links", "", no...); a.StatusCode != 403 {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
	}
	l.visit("GET", link, "", 200, "<form")
	if a := requestPath(t, l.Server, "DELETE", "/api/v1/channels/links", "", admin...); a.StatusCode != 204 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	l.visit("POST", link, "", 404, "The link is invalid")
	if l.ack("a") != nil {
		t.Error("an ended link acknowledged")
	}
	l.visit("GET", l.link("other", a.ID), "", 200, "<form")
	entries, _, err := l.store.Audit(t.Context(), access.AuditFilter{Object: "ack-links"})
	failOn(t, err)
	if len(entries) != 1 || entries[0].Action != string(access.AckLinkRevoke) || entries[0].Actor.Name != "root" {
		t.Errorf("%+v", entries)
	}
}

// A link of an alert that is acknowledged by a person or resolved changes nothing, and says so.
func TestLinkOfOtherStates(t *testing.T) {
	l := newLinkFixture(t)
	a, b := l.raise("a"), l.raise("b")
	_, err := l.Acknowledge(access.As(t.Context(), access.Actor{Name: "ada"}), a.ID, futurejobs.Ack{Until: l.now.Add(2 * time.Hour), Note: "on it"})
	failOn(t, err)
	l.visit("POST", l.link("team", a.ID), "", 303, "")
	l.visit("GET", l.link("team", a.ID), "", 200, "Acknowledged by <b><bdi>ada</bdi></b> (<bdi>on it</bdi>)")
	if ack := l.ack("a"); ack.By != "ada" {
		t.Errorf("%+v", ack)
	}
	l.now = l.now.Add(3 * time.Hour) // the acknowledgement has ended, and the link was not used
	l.visit("POST", l.link("team", a.ID), "", 303, "")
	if ack := l.ack("a"); ack.By != "channel:team" {
		t.Errorf("%+v", ack)
	}
	l.resolve("b")
	for _, method := range []string{"POST", "GET"} {
		a := requestPath(t, l.Server, method, l.link("team", b.ID), "", formOf...)
		if method == "GET" && (!strings.Contains(a.body, "This alert is resolved") || strings.Contains(a.body, "<form")) {
			t.Error(a.body)
		}
	}
}

// A client with invalid links is limited, and so are the requests with one link. Logins of the same address are not.
func TestLinksAreLimited(t *testing.T) {
	l := newLinkFixture(t)
	link := l.link("team", l.raise("a").ID)
	tooMany := func(path func(i int) string) (n int) {
		for i := range 40 {
			if a := requestPath(t, l.Server, "GET", path(i), ""); a.StatusCode == http.StatusTooManyRequests && a.Header.Get("Retry-After") != "" {
				n++
			}
		}
		return n
	}
	if n := tooMany(func(int) string { return link }); n < 20 || n == 40 {
		t.Errorf("%d of 40 requests with one link were refused", n)
	}
	if n := tooMany(func(i int) string { return acklinks.Prefix + strings.Repeat("A", 40+i) }); n != 20 {
		t.Errorf("%d of 40 invalid links were refused unchecked, want 20", n)
	}
	token := l.newToken("me", "", access.Read)
	if a := requestPath(t, l.Server, "GET", "/api/v1/alerts", "", token...); a.StatusCode != 200 {
		t.Errorf("a token of the address: %d", a.StatusCode)
	}
}
