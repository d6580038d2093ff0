package notify_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"deadman/internal/notify"
)

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"slack.url": "slack://hook:WNA3PBYV6-F20DUQND3RQ-Webc4MAvoacrpPakR8phF0zi@webhook", "bad.url": "slack://hook:sEcReT@webhook",
		"two": "a\nb", "short.secret": "whsec_c2hvcnQ=",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, text string
		wantTexts  []string // a part of each problem, in order
	}{
		{"unknown field", "chanels: {}", []string{`1:1: chanels: unknown field "chanels"; did you mean "channels"?`}},
		{"all at once", `channels:
  Bad: {kind: webhook, url: "https://example.org"}
  none: {kind: none, url_file: gone.url}
  open: {kind: slack, url: "slack://a:b@webhook"}
  user: {kind: webhook, url: "https://me:pass@example.org/"}
  other: {kind: email, url_file: slack.url}
  wrong: {kind: slack, url_file: bad.url}
  gone: {kind: slack, url_file: gone.url}
  lines: {kind: slack, url_file: two}
  weak: {kind: webhook, url: "https://example.org", secret_file: short.secret}
  odd: {kind: alertmanager, url: "ftp://example.org"}
  lost: {kind: webhook}
  old: {kind: alertmanager, url: "https://example.org/hook?token=a"}
  path: {kind: alertmanager, url: "http://example.org/am/api/v2/alerts"}
  two: {kind: alertmanager, url: "http://a", urls: ["http://a", "http://b:9093/api/v2"], resend_interval: 5s, headers: {Host: {file: slack.url}, X: {}}}
  not: {kind: webhook, urls: ["https://example.org"]}
routes:
  - {to: lots, severity: loud}
  - {rule: x}
  - {to: lost, max_per_hour: 0, group_wait: 2h, labels: {rule: x}, continue: maybe}
  - {name: a, to: lost}
  - {name: a, to: [lost, lost]}
zone: localtime
`, []string{
			`2:3: channels.Bad: "Bad" is not a name`,
			`3:16: channels.none.kind: there is no kind "none"; it is one of slack, email`,
			`3:32: channels.none.url_file: open `,
			`4:3: channels.open: a URL of this kind has secrets in it`,
			`5:3: channels.user: a URL with a user`,
			`6:3: channels.other: the URL of the kind email begins with smtp://`,
			`7:3: channels.wrong: the URL is not one of slack`,
			`8:33: channels.gone.url_file: open `,
			`9:34: channels.lines.url_file: `,
			`10:3: channels.weak: the secret is not as Standard Webhooks`,
			`11:3: channels.odd: the URL is no web address`,
			`12:3: channels.lost: there is no url`,
			`13:3: channels.old: the base URL of an Alertmanager has no query; write it as http://alertmanager.example.org:9093, or, for a receiver of Alertmanager's webhooks, kind: alertmanager-webhook`,
			`14:3: channels.path: the URL is the address of a request; write the base URL`,
			`15:46: channels.two.urls: there is a url, too`,
			`15:107: channels.two.resend_interval: the interval is below 10s`,
			`15:121: channels.two.headers.Host: deadman sets Host itself`,
			`15:146: channels.two.headers.X: file is missing`,
			`16:3: channels.not: urls and resend_interval are for the kind alertmanager`,
			`18:10: routes[0].to: there is no channel "lots"; did you mean "lost"?`,
			`18:26: routes[0].severity: "loud" is no severity`,
			`19:5: routes[1]: to is missing`,
			`20:30: routes[2].max_per_hour: expected a whole number from 1 to 3600`,
			`20:45: routes[2].group_wait: 2h is not within`,
			`20:58: routes[2].labels.rule: "rule" is a field of every alert`,
			`20:78: routes[2].continue: expected true or false`,
			`22:5: routes[4]: another route is "a" already`,
			`22:26: routes[4].to[1]: "lost" is here twice`,
			`23:7: zone: "localtime" is not a time zone; write a name of the IANA database`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := notify.Parse([]byte(c.text), filepath.Join(dir, "notify.yaml"))
			if err == nil {
				t.Fatal("it was taken")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.wantTexts) {
				t.Errorf("%d problems, want %d:\n%v", len(lines), len(c.wantTexts), err)
			}
			for i, line := range lines {
				if i < len(c.wantTexts) && !strings.Contains(line, c.wantTexts[i]) {
					t.Errorf("the text is\n%s\nwant\n%s", line, c.wantTexts[i])
				}
				if strings.Contains(line, "sEcReT") {
					t.Errorf("a secret is shown: %s", line)
				}
			}
		})
	}
}

// Entries that are valid and never used are named.
func TestIdleEntries(t *testing.T) {
	c, err := notify.Parse([]byte(`
channels:
  team: {kind: alertmanager, url: "http://c.example.org:9093"}
  pager: {kind: alertmanager, url: "http://d.example.org:9093"}
  chat: {kind: alertmanager, url: "http://e.example.org:9093"}
  ticks: {kind: webhook, url: "https://example.org/"}
routes:
  - {to: team, rule: "order-*", severity: [warning, error]}
  - {to: chat, rule: "order-*", severity: error}
  - {to: chat, rule: "order-*", labels: {team: a}}
  - {to: team, entity: "*", continue: true}
  - {to: team, name: rest}
  - {to: pager, severity: critical}
`), "notify.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"route 2 is never reached: route 1 takes all of its alerts and does not continue",
		"route 6 is never reached: rest takes all of its alerts and does not continue",
		"channel pager gets no messages: no route that is reached names it",
	}
	if got := c.Idle(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGoodFile(t *testing.T) {
	c, err := notify.Parse([]byte(`
routes:
  - to: hook
    group_by: []
channels:
  hook: {kind: webhook, url: "https://example.org/"}
`), "notify.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Routes[0]; r.Name != "route 1" || len(r.GroupBy) != 0 || r.PerHour != 60 || r.Wait.String() != "10s" {
		t.Errorf("%+v", r)
	}
	if c, err := notify.Parse(nil, "notify.yaml"); err != nil || len(c.Channels) != 0 {
		t.Errorf("nothing at all: %+v, %v", c, err)
	}
}
