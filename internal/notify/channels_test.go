package notify_test

import (
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"mime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"deadman/rules/document"

	"deadman/alerts"
	"deadman/internal/notify"
)

// service is a channel, with its service's interpretation of messages.
type service struct {
	url   string
	kind  notify.Kind
	does  func(sent string) []string
	shown string                   // parts of the request that may contain texts of events; no other part may
	most  int                      // maximum characters of those texts; 0: unlimited
	reads func(sent string) string // the text as displayed; nil: as sent
}

// everyService has one channel for each service that shoutrrr sends to over HTTP, and for each mode with a separate
// format. The maximum sizes are those of shoutrrr or the service.
var everyService = map[string]service{
	"slack":                {url: "slack://hook:WNA3PBYV6-F20DUQND3RQ-Webc4MAvoacrpPakR8phF0zi@webhook", kind: notify.Slack, does: effectsInSlack, shown: ".text .attachments[].text", reads: html.UnescapeString},
	"slack bot":            {url: "slack://xoxb:123456789012-1234567890123-4mt0t4l1YL3g1T5L4cK70k3N@ops", kind: notify.Slack, does: effectsInSlack, shown: ".text .attachments[].text", reads: html.UnescapeString},
	"pagerduty":            {url: "pagerduty:///eb243592faa24ba2a5511afdf565c889", kind: notify.PagerDuty, does: effectsInPlainText, shown: ".payload.summary"},
	"discord":              {url: "discord://token-of-the-hook@123456789012345678", does: effectsInDiscord, shown: ".embeds[].description .content"},
	"mattermost":           {url: "mattermost://chat.example.org/a-long-token", does: effectsInMarkdown, shown: ".text", reads: readMarkdown},
	"rocketchat":           {url: "rocketchat://chat.example.org/token-a/token-b", does: effectsInMarkdown, shown: ".text", reads: readMarkdown},
	"teams":                {url: "teams://?host=https%3A%2F%2Fprod-00.westus.logic.azure.com%3A443%2Fworkflows%2Fabc123%2Ftriggers%2Fmanual%2Fpaths%2Finvoke%3Fapi-version%3D2016-06-00%26sp%3D%2Ftriggers%2Fmanual%2Frun%26sv%3D1.0%26sig%3DXXXXXXXX", does: effectsInMarkdown, shown: ".attachments[].content.body[].text", reads: readMarkdown},
	"zulip":                {url: "zulip://bot%40example.org:a-long-key@zulip.example.org/?stream=ops&topic=deadman", does: effectsInMarkdown, shown: ".content", most: 10_000, reads: readMarkdown},
	"googlechat":           {url: "googlechat://chat.googleapis.com/v1/spaces/FOO/messages?key=bar&token=baz", does: effectsInUnknown, shown: ".text", most: 4096},
	"telegram":             {url: telegramURL, does: effectsInUnknown, shown: ".text", most: 4096},
	"telegram, HTML":       {url: telegramURL + "&parsemode=HTML", does: effectsInHTML, shown: ".text", most: 4096, reads: html.UnescapeString},
	"telegram, Markdown":   {url: telegramURL + "&parsemode=Markdown", does: effectsInLegacyTelegram, shown: ".text", most: 4096},
	"telegram, MarkdownV2": {url: telegramURL + "&parsemode=MarkdownV2", does: effectsInTelegram, shown: ".text", most: 4096},
	"ntfy":                 {url: "ntfy://ntfy.example.org/deadman", does: effectsInUnknown, most: 4096},
	"ntfy, Markdown":       {url: "ntfy://ntfy.example.org/deadman?markdown=yes", does: effectsInMarkdown, most: 4096, reads: readMarkdown},
	"matrix":               {url: "matrix://:a-long-access-token@matrix.example.org/?rooms=!a:example.org", does: effectsInUnknown, shown: ".body", reads: html.UnescapeString},
	"lark":                 {url: "lark://open.larksuite.com/abc123?secret=xyz789", does: effectsInUnknown, shown: ".content.text", most: 4096},
	"wecom":                {url: "wecom://693axxx6-7aoc-4bc4-97a0-0ec2sifa5aaa", does: effectsInUnknown, shown: ".text.content", most: 4096},
	"gotify":               {url: "gotify://gotify.example.org/AzyoeNS.D4iJLVa", does: effectsInUnknown, shown: ".message", reads: html.UnescapeString},
	"pushover":             {url: "pushover://shoutrrr:abcdefghijklmnopqrstuvwxyz1234@abcdefghijklmnopqrstuvwxyz5678", does: effectsInUnknown, shown: ".message", most: 1024, reads: html.UnescapeString},
	"opsgenie":             {url: "opsgenie://api.opsgenie.com/eb243592-faa2-4ba2-a551q-1afdf565c889", does: effectsInUnknown, shown: ".message .description", reads: html.UnescapeString},
	"generic":              {url: "generic+https://hook.example.org/a", does: effectsInUnknown, reads: html.UnescapeString},
	"generic, JSON":        {url: "generic+https://hook.example.org/a?template=json", does: effectsInUnknown, shown: ".message", reads: html.UnescapeString},
	"notifiarr":            {url: "notifiarr://a-long-key?channel=123456789012345678", does: effectsInDiscord, shown: ".discord.text.description .discord.text.content"},
	"twilio":               {url: "twilio://AC0123456789abcdef0123456789abcdef:token@+15551234567/+15559876543", does: effectsInUnknown, shown: ".Body", most: 1600},
}

const telegramURL = "telegram://123456789:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA@telegram?chats=1"

// payloads are texts with an effect in at least one service.
var payloads = []string{
	"<!channel> <https://evil.example/login|View in deadman>", "<!here|x> <@U123> <!subteam^S1>", "@everyone @here @channel @all @**all** @bob", "x@everyone y@here.example z@everyone.example ops@example.org",
	"<@123> <@&123> <#1> </a:1> <t:1:R> <:x:1> <id:guide>", "<users/all> <at>Ann</at>", "[View](https://evil.example) ![a](https://evil.example/b.png) [a][b]\n\n[b]: https://evil.example",
	"https://good.example@evil.example/ https://a.example/?a=1&shy;b &#8238;c &lrm;", "<a href=\"https://evil.example\">View</a><script>alert(1)</script><!-- -->", "\r\nBcc: everyone@evil.example\r\n\r\nbody",
	"a\nX-Actions: view, https://evil.example", "=?utf-8?B?4oCuSGVsbG8=?=", "\r\n.\r\nMAIL FROM:<evil@evil.example>", "--boundary\r\nContent-Type: text/html", "*a* _b_ ~~c~~ ||d|| `e` ```f``` # g\n> h\n- i",
	"\u202egnp.exe \u2066x\u2069 \u200bz\u200dw\ufeff \u00ad\U000e0041 \u2028\u2029\u0085", "\x1b[2J\x00\x07\x7f", "\\[a\\](https://evil.example) \\", "&lt;b&gt; &#60;b&#62; &amp;#8238;", "${7*7} {{7*7}} %s",
	`","text":"<!channel>"}`, "&\u202e#8238;", "\xff\xfe", strings.Repeat("<!channel>", 60), strings.Repeat("👩‍🚀", 200), strings.Repeat("&", 400),
}

// composedSeeds is the number of events composed of parts of payloads.
const composedSeeds = 40

// FuzzChannels sends one alert and many alerts of an event to each channel, and interprets them like each service: no
// text of the event mentions, links, becomes a header, or hides.
func FuzzChannels(f *testing.F) {
	for i, one := range payloads {
		f.Add(one, payloads[(i+7)%len(payloads)], payloads[(i+13)%len(payloads)])
	}
	random := rand.New(rand.NewPCG(1, 2))
	composed := func() (all string) {
		for range 1 + random.IntN(4) {
			one := []rune(payloads[random.IntN(len(payloads))])
			from := random.IntN(len(one))
			all += string(one[from : from+1+random.IntN(len(one)-from)])
		}
		return all
	}
	for range composedSeeds {
		f.Add(composed(), composed(), composed())
	}
	r, client := newReceivers(f)
	channels := make(map[string]notify.Channel)
	for name, s := range everyService {
		kind := s.kind
		if kind == "" {
			kind = notify.Shoutrrr
		}
		c, err := notify.Open(notify.Spec{Name: "c", Kind: kind, URL: s.url}, client)
		if err != nil {
			f.Fatalf("%s: %v", name, err)
		}
		channels[name] = c
	}
	for _, kind := range []notify.Kind{notify.Webhook, notify.AlertmanagerWebhook, notify.Alertmanager} {
		c, err := notify.Open(notify.Spec{Name: "c", Kind: kind, URL: "https://hook.example.org/a"}, client)
		if err != nil {
			f.Fatal(err)
		}
		channels[string(kind)] = c
	}
	office := newSMTPServer(f)
	for name, options := range map[string]string{"mail": "", "mail, HTML": "&usehtml=yes"} {
		c, err := notify.Open(notify.Spec{Name: "c", Kind: notify.Email, URL: "smtp://" + office.Addr().String() + "/?from=deadman@example.org&to=ops@example.org&encryption=None&starttls=No" + options}, client)
		if err != nil {
			f.Fatal(err)
		}
		channels[name] = c
	}
	f.Fuzz(func(t *testing.T, key, text, label string) {
		key = key[:min(len(key), document.MaxKey)]
		key, text, label = strings.ToValidUTF8(key, "?"), strings.ToValidUTF8(text, "?"), strings.ToValidUTF8(label, "?")
		for _, m := range []notify.Message{hostileMessage(1, key, text, label), hostileMessage(12, key, text, label)} {
			for name, c := range channels {
				if err := c.Send(t.Context(), m); err != nil {
					t.Errorf("%s: an event keeps its alert from people: %v", name, err)
				}
				for _, got := range r.received() {
					switch s, ok := everyService[name]; {
					case ok:
						checkService(t, name, s, got)
					case name == string(notify.Webhook):
						checkWebhook(t, m, got)
					case name == string(notify.Alertmanager):
						var posted []amAlert
						if err := json.Unmarshal(got.body, &posted); err != nil {
							t.Fatal(err)
						}
						checkAlerts(t, m, posted)
					default:
						var received amMessage
						if err := json.Unmarshal(got.body, &received); err != nil {
							t.Fatal(err)
						}
						checkAlerts(t, m, received.Alerts)
					}
				}
				for _, sent := range office.received() {
					checkMail(t, name, sent)
				}
			}
		}
	})
}

// hostileMessage returns a message about alerts of an event.
func hostileMessage(count int, key, text, label string) notify.Message {
	a := firingAlert(key)
	a.Text, a.Labels, a.Since = text, map[string]string{"site": label}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := newMessage(slices.Repeat([]alerts.Alert{a}, count)...)
	m.Topic = "site=" + label
	return m
}

// hiddenText returns the hidden characters of a text.
func hiddenText(s string) string {
	before := rune(0)
	for i, r := range s {
		after, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
		joins := (r == '\u200c' || r == '\u200d') && before > unicode.MaxASCII && after > unicode.MaxASCII
		switch {
		case r == '\n', joins:
		case unicode.Is(unicode.Cc, r), r == '\u2028', r == '\u2029', r == '\u00ad', r >= '\u200b' && r <= '\u200f', r >= '\u202a' && r <= '\u202e',
			r >= '\u2060' && r <= '\u206f', r == '\ufeff', r == '\u061c', r >= '\U000e0000' && r <= '\U000e007f':
			return fmt.Sprintf("%U at %d of %q", r, i, s)
		}
		before = r
	}
	return ""
}

func checkService(t *testing.T, name string, s service, r request) {
	t.Helper()
	size := 0
	for at, sent := range shownIn(t, r) {
		if at != s.shown && !slices.Contains(strings.Fields(s.shown), at) {
			if strings.Contains(sent, "order-late") {
				t.Errorf("%s: %s has the text %q", name, at, sent)
			}
			continue
		}
		size += utf8.RuneCountInString(sent)
		if does := s.does(sent); len(does) > 0 {
			t.Errorf("%s: %q in %q", name, does, sent)
		}
		if s.reads != nil {
			sent = s.reads(sent)
		}
		if found := hiddenText(sent); found != "" {
			t.Errorf("%s: %s", name, found)
		}
	}
	if size == 0 || s.most > 0 && size > s.most {
		t.Errorf("%s: the texts have %d characters, want 1 to %d: %.300q", name, size, s.most, r.body)
	}
	for header, values := range r.header {
		if text := strings.Join(values, " "); strings.Contains(text, "order") || strings.Contains(text, "evil") {
			t.Errorf("%s: the header %s is %q", name, header, text)
		}
	}
}

// A program receives alerts unchanged; its title is for people.
func checkWebhook(t *testing.T, m notify.Message, r request) {
	t.Helper()
	var got notify.WebhookMessage
	if err := json.Unmarshal(r.body, &got); err != nil {
		t.Fatal(err)
	}
	if found := hiddenText(got.Data.Title); found != "" || strings.Contains(got.Data.Title, "\n") {
		t.Errorf("webhook: the title: %s", found)
	}
	for i, a := range got.Data.Alerts {
		if a.Key != m.Alerts[i].Key || a.Text != m.Alerts[i].Text || a.Labels["site"] != m.Alerts[i].Labels["site"] {
			t.Errorf("webhook: %+v is sent as %+v", m.Alerts[i], a)
		}
	}
	if names := headers(r.header); !slices.Equal(names, []string{"Accept-Encoding", "Content-Length", "Content-Type", "User-Agent", "Webhook-Id", "Webhook-Timestamp"}) {
		t.Errorf("webhook: headers %s", names)
	}
}

// checkAlerts checks alerts for Alertmanager or its receivers.
func checkAlerts(t *testing.T, m notify.Message, sent []amAlert) {
	t.Helper()
	if len(sent) != len(m.Alerts) {
		t.Errorf("alertmanager: %d alerts of %d", len(sent), len(m.Alerts))
	}
	for _, a := range sent {
		if found := hiddenText(string(a.Annotations["summary"])); found != "" || len(a.Annotations) != 1 {
			t.Errorf("alertmanager: %v, %s", a.Annotations, found)
		}
		if string(a.Labels["alertname"]) != "order-late" || string(a.Labels["site"]) != m.Alerts[0].Labels["site"] || a.Labels["severity"] != "critical" {
			t.Errorf("alertmanager: %v", a.Labels)
		}
	}
}

func checkMail(t *testing.T, name, sent string) {
	t.Helper()
	l := parseMail(t, sent)
	want := []string{"Date", "From", "To", "Subject", "Message-ID", "In-Reply-To", "References", "Auto-Submitted", "MIME-Version", "Content-Type"}
	if name == "mail" {
		want = append(want, "Content-Transfer-Encoding")
	}
	if names := headerOrder(sent); !slices.Equal(names, want) {
		t.Errorf("%s: headers %s in %q", name, names, sent)
	}
	for line := range strings.Lines(sent) {
		if len(line) > 1000 {
			t.Errorf("%s: a line of %d bytes, which RFC 5322 forbids: %.100q", name, len(line), line)
		}
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(l.header.Get("Subject"))
	if found := hiddenText(subject); err != nil || found != "" || strings.Contains(subject, "\n") || !strings.HasPrefix(subject, "[CRITICAL] ") {
		t.Errorf("%s: the subject %q: %v %s", name, subject, err, found)
	}
	if l.header.Get("To") != "ops@example.org" || l.header.Get("From") != "<deadman@example.org>" {
		t.Errorf("%s: %q", name, sent)
	}
	for kind, body := range l.parts {
		body = strings.ReplaceAll(body, "\r\n", "\n")
		if kind == "text/html" {
			inner := strings.TrimSpace(body)
			inner = strings.TrimSuffix(strings.TrimPrefix(inner, "<pre>"), "</pre>")
			if does := openingTag.FindAllString(inner, -1); does != nil {
				t.Errorf("%s: %q in %q", name, does, inner)
			}
			body = html.UnescapeString(inner)
		}
		if found := hiddenText(body); found != "" {
			t.Errorf("%s, %s: %s", name, kind, found)
		}
	}
	if want := map[string]int{"mail": 1, "mail, HTML": 2}[name]; len(l.parts) != want || l.parts["text/plain"] == "" {
		t.Errorf("%s has %d parts: %q", name, len(l.parts), sent)
	}
}
