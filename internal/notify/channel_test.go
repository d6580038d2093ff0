package notify_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"deadman/alerts"
	"deadman/checks"
	"deadman/internal/notify"
)

// amMessage is a message as parsed by Alertmanager's receivers.
type amMessage struct {
	Version, GroupKey, Status, Receiver string
	GroupLabels, CommonLabels           model.LabelSet
	Alerts                              []amAlert
}

// amAlert is an alert as parsed by Alertmanager and its receivers.
type amAlert struct {
	Status, Fingerprint, GeneratorURL string
	Labels, Annotations               model.LabelSet
	StartsAt, EndsAt                  time.Time
}

// Alertmanager's receivers pair firing and resolved alerts by the fingerprint.
func TestAlertmanagerWebhook(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(`
channels: {am: {kind: alertmanager-webhook, url: $URL/am}}
routes: [{to: am, group_wait: 0s}]
`)
		w.fire(alerts.Critical, map[string]string{"site-name": "north"}, "a", "b")
		w.advance(n, 0)
		w.resolve("a")
		w.advance(n, 0)
		var got []amMessage
		for _, p := range w.receiver.received() {
			var m amMessage
			if err := json.Unmarshal([]byte(p.body), &m); err != nil {
				t.Fatal(err)
			}
			got = append(got, m)
		}
		if len(got) != 2 || len(got[0].Alerts) != 2 || len(got[1].Alerts) != 1 {
			t.Fatalf("%+v", got)
		}
		first, second := got[0], got[1]
		if first.Version != "4" || first.Status != "firing" || second.Status != "resolved" || first.Receiver != "am" || first.GroupKey != second.GroupKey {
			t.Errorf("%+v\n%+v", first, second)
		}
		if want := (model.LabelSet{
			"alertname": "order-late", "entity": "order", "severity": "critical", "step": "primary", "site_name": "north",
		}); !first.CommonLabels.Equal(want) {
			t.Errorf("common labels: %s", first.CommonLabels)
		}
		if name := first.GroupLabels["alertname"]; name != "order-late" || second.GroupLabels["alertname"] != name {
			t.Errorf("group labels: %s, %s", first.GroupLabels, second.GroupLabels)
		}
		fired, closed := first.Alerts[0], second.Alerts[0]
		if fired.Labels["key"] != "a" {
			fired = first.Alerts[1]
		}
		if closed.Fingerprint != fired.Fingerprint || !closed.Labels.Equal(fired.Labels) || closed.Status != "resolved" || !closed.StartsAt.Equal(fired.StartsAt) {
			t.Errorf("%+v does not close %+v", closed, fired)
		}
		if since := w.now.Add(-time.Hour); !fired.StartsAt.Equal(since) {
			t.Errorf("it starts at %s, and the job started at %s", fired.StartsAt, since)
		}
		if !fired.EndsAt.IsZero() || closed.EndsAt.IsZero() || fired.Labels.Fingerprint().String() != fired.Fingerprint {
			t.Errorf("%+v, %+v", fired, closed)
		}
	})
}

// serviceClient returns a client that sends the requests for any host, such as Slack or PagerDuty, to the ear.
func serviceClient(t *testing.T, e *webhookReceiver) *http.Client {
	server := httptest.NewTLSServer(e)
	t.Cleanup(server.Close)
	client := notify.NewClient()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it is this process
	}
	t.Cleanup(transport.CloseIdleConnections)
	client.Transport = transport
	return client
}

func newMessage(about ...alerts.Alert) notify.Message {
	return notify.Message{
		Notification: alerts.Notification{Channel: "c", Route: "r", Topic: "rule=order-late", Alerts: len(about)},
		Alerts:       about, PublicURL: "https://deadman.example.org", TopicOpen: true,
	}
}

func firingAlert(key string) alerts.Alert {
	return alerts.Alert{
		Rule: "order-late", Entity: "order", Key: key, URL: "https://deadman.example.org/alerts/1",
		Detail: alerts.Detail{Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Critical, Text: "order " + key + " waits"}},
	}
}

func TestSlack(t *testing.T) {
	e := newWebhookReceiver(t)
	c, err := notify.Open(notify.Spec{Name: "s", Kind: notify.Slack, URL: "slack://hook:WNA3PBYV6-F20DUQND3RQ-Webc4MAvoacrpPakR8phF0zi@webhook"}, serviceClient(t, e))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), newMessage(firingAlert("1"))); err != nil {
		t.Fatal(err)
	}
	got := e.received()
	if len(got) != 1 || !strings.HasPrefix(got[0].path, "/services/WNA3PBYV6/") {
		t.Fatalf("%+v", got)
	}
	for _, part := range []string{"[CRITICAL] order 1 waits", "rule order-late", "https://deadman.example.org/alerts/1"} {
		if !strings.Contains(got[0].body, part) {
			t.Errorf("no %q in %s", part, got[0].body)
		}
	}
	e.setStatus(404)
	if err := c.Send(t.Context(), newMessage(firingAlert("1"))); err == nil {
		t.Error("a message that was refused was taken")
	}
}

func TestPagerDuty(t *testing.T) {
	e := newWebhookReceiver(t)
	e.setStatus(202)
	c, err := notify.Open(notify.Spec{Name: "p", Kind: notify.PagerDuty, URL: "pagerduty:///eb243592faa24ba2a5511afdf565c889"}, serviceClient(t, e))
	if err != nil {
		t.Fatal(err)
	}
	resolved := firingAlert("1")
	resolved.Status = alerts.Resolved
	over := newMessage(resolved)
	over.TopicOpen = false
	partly := newMessage(resolved)
	for _, m := range []notify.Message{newMessage(firingAlert("1")), partly, over} {
		if err := c.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	type event struct {
		Action  string `json:"event_action"`
		Key     string `json:"dedup_key"`
		Payload struct{ Severity, Summary string }
	}
	var got []event
	for _, p := range e.received() {
		var v event
		if err := json.Unmarshal([]byte(p.body), &v); err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
	if len(got) != 3 || got[0].Action != "trigger" || got[1].Action != "trigger" || got[2].Action != "resolve" {
		t.Fatalf("%+v", got)
	}
	if got[0].Key == "" || got[0].Key != got[2].Key || got[0].Payload.Severity != "critical" || !strings.Contains(got[0].Payload.Summary, "order 1 waits") {
		t.Errorf("%+v", got)
	}
}

// smtpServer is a mail server that records mails.
type smtpServer struct {
	net.Listener
	mu        sync.Mutex
	mails     []string
	to        []string          // of each mail, its recipients
	answers   map[string]string // to recipients, by address; of others: 250
	requested []string          // recipients in all transactions
	gone      sync.WaitGroup
}

// setAnswers sets the answers to recipients.
func (p *smtpServer) setAnswers(byAddress map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = byAddress
}

// recipient returns the answer to a line with a recipient, and its address if the answer accepts it.
func (p *smtpServer) recipient(line string) (answer, accepted string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, address, _ := strings.Cut(strings.TrimSpace(line), "<")
	address, _, _ = strings.Cut(address, ">")
	p.requested = append(p.requested, address)
	if refusal, is := p.answers[address]; is {
		return refusal, ""
	}
	return "250 fine", address
}

func newSMTPServer(t testing.TB) *smtpServer {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &smtpServer{Listener: socket}
	p.gone.Go(func() {
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			p.gone.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() { socket.Close(); p.gone.Wait() })
	return p
}

// serve implements the part of RFC 5321 needed by a client.
func (p *smtpServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	raise := func(s string) { fmt.Fprint(conn, s+"\r\n") }
	raise("220 here")
	var to []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.Fields(line + " x")[0]); verb {
		case "MAIL", "RSET":
			to = nil
			raise("250 fine")
		case "RCPT":
			answer, accepted := p.recipient(line)
			if accepted != "" {
				to = append(to, accepted)
			}
			raise(answer)
		case "DATA":
			if len(to) == 0 {
				raise("554 no recipients")
				continue
			}
			raise("354 go on")
			var mail strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				mail.WriteString(line)
			}
			p.mu.Lock()
			p.mails, p.to = append(p.mails, mail.String()), append(p.to, strings.Join(to, ","))
			p.mu.Unlock()
			raise("250 kept")
		case "QUIT":
			raise("221 bye")
			return
		default:
			raise("250 fine")
		}
	}
}

func TestEmail(t *testing.T) {
	office := newSMTPServer(t)
	url := fmt.Sprintf("smtp://%s/?from=deadman@example.org&to=ops@example.org,boss@example.org&encryption=None&starttls=No", office.Addr())
	c, err := notify.Open(notify.Spec{Name: "m", Kind: notify.Email, URL: url}, notify.NewClient())
	if err != nil {
		t.Fatal(err)
	}
	if certificate, err := notify.Probe(t.Context(), notify.Spec{Name: "m", Kind: notify.Email, URL: url}); err != nil || certificate != nil || len(office.mails) > 0 {
		t.Errorf("a probe of the mail server: %v, %v, %d mails", certificate, err, len(office.mails))
	}
	evil := firingAlert("1\r\nBcc: everybody@example.org")
	if err := c.Send(t.Context(), newMessage(evil)); err != nil {
		t.Fatal(err)
	}
	office.mu.Lock()
	defer office.mu.Unlock()
	if len(office.mails) != 1 || office.to[0] != "ops@example.org,boss@example.org" {
		t.Fatalf("%d mails to %q", len(office.mails), office.to)
	}
	if to, err := mail.ParseAddressList(parseMail(t, office.mails[0]).header.Get("To")); err != nil || len(to) != 2 || to[1].Address != "boss@example.org" {
		t.Errorf("the header names %v: %v", to, err)
	}
	head, body, _ := strings.Cut(office.mails[0], "\r\n\r\n")
	if !strings.Contains(head, "Subject:") || !strings.Contains(head, "[CRITICAL] order 1") || strings.Contains(head, "\nBcc:") {
		t.Error(head)
	}
	if !strings.Contains(body, "order-late") || strings.Contains(body, "\nBcc:") {
		t.Error(body)
	}
}

// The mails about a job name its thread, whichever others they are about; a repeated mail has the id of the first.
func TestMailsOfAJobAreAThread(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		office := newSMTPServer(t)
		w.secret("smtp.url", fmt.Sprintf("smtp://%s/?from=deadman@example.org&to=ops@example.org&encryption=None&starttls=No", office.Addr()))
		n := w.notifier(`
channels: {mail: {kind: email, url_file: $DIR/smtp.url}}
routes: [{to: mail, group_wait: 0s}]
`)
		next := func() mail.Header {
			t.Helper()
			w.advance(n, time.Minute)
			sent := office.received()
			if len(sent) != 1 {
				t.Fatalf("%d mails", len(sent))
			}
			return parseMail(t, sent[0]).header
		}
		w.fire(alerts.Critical, nil, "a", "b")
		both := next()
		w.acknowledge("lena", checks.Forever, "a")
		ack := next()
		w.resolve("a")
		over := next()
		w.fire(alerts.Critical, nil, "c")
		other := next()
		w.now = w.now.Add(time.Hour)
		w.fire(alerts.Critical, nil, "a")
		again := next()

		ids := make(map[string]bool)
		for _, h := range []mail.Header{both, ack, over, other, again} {
			ids[h.Get("Message-ID")] = true
			if !regexp.MustCompile(`^<msg_[0-9a-f]+@example\.org>$`).MatchString(h.Get("Message-ID")) {
				t.Errorf("the id %q", h.Get("Message-ID"))
			}
		}
		if len(ids) != 5 {
			t.Errorf("5 mails have the ids %v", ids)
		}
		thread := over.Get("References")
		if strings.Count(thread, "<") != 1 || over.Get("In-Reply-To") != thread || ack.Get("References") != thread {
			t.Errorf("the acknowledgement is in %q, the end in %q", ack.Get("References"), thread)
		}
		if named := strings.Fields(both.Get("References")); len(named) != 2 || !slices.Contains(named, thread) {
			t.Errorf("the mail about two jobs is in %q, that of one of them %q", named, thread)
		}
		if other.Get("References") == thread || again.Get("References") == thread || other.Get("References") == again.Get("References") {
			t.Errorf("other jobs are in %q and %q, as the first %q", other.Get("References"), again.Get("References"), thread)
		}
	})
}

// The job of a heartbeat starts anew with the ping that resolves its alert: the alert that this closes counts.
func TestMailOfAResolvedHeartbeatIsInTheThread(t *testing.T) {
	office := newSMTPServer(t)
	c, err := notify.Open(notify.Spec{Name: "m", Kind: notify.Email, URL: fmt.Sprintf("smtp://%s/?from=deadman@example.org&to=ops@example.org&encryption=None&starttls=No", office.Addr())}, notify.NewClient())
	if err != nil {
		t.Fatal(err)
	}
	fired := firingAlert("db-1")
	fired.ID, fired.Since = alerts.ID{1}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	closing := firingAlert("db-1")
	closing.ID, closing.Status, closing.Since, closing.Closes = alerts.ID{2}, alerts.Resolved, fired.Since.Add(time.Hour), []alerts.ID{fired.ID}
	over := newMessage(closing)
	over.Closed = map[alerts.ID]alerts.Alert{fired.ID: fired}
	var threads []string
	for _, m := range []notify.Message{newMessage(fired), over} {
		if err := c.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		threads = append(threads, parseMail(t, office.received()[0]).header.Get("References"))
	}
	if threads[0] == "" || threads[0] != threads[1] {
		t.Errorf("the threads %q", threads)
	}
}

func TestRepeatedMailHasTheSameID(t *testing.T) {
	office := newSMTPServer(t)
	url := fmt.Sprintf("smtp://%s/?from=deadman@example.org&to=ops@example.org,boss@example.org&encryption=None&starttls=No", office.Addr())
	c, err := notify.Open(notify.Spec{Name: "m", Kind: notify.Email, URL: url}, notify.NewClient())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, id := range []int64{7, 7, 8} {
		m := newMessage(firingAlert("1"))
		m.ID = id
		if err := c.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		for _, sent := range office.received() {
			ids = append(ids, parseMail(t, sent).header.Get("Message-ID"))
		}
	}
	if len(ids) != 3 || ids[0] != ids[1] || ids[0] == ids[2] {
		t.Errorf("three messages to two recipients, the second repeats the first: %q", ids)
	}
}

// mailTo has the recipients of the tests of refused recipients.
const mailTo = "ops@example.org,boss@example.org,gone@example.org"

// mailNotifier returns a notifier with a channel of mails to mailTo.
func (w *fixture) mailNotifier(office *smtpServer) *notify.Notifier {
	w.t.Helper()
	w.secret("smtp.url", fmt.Sprintf("smtp://%s/?from=deadman@example.org&to=%s&encryption=None&starttls=No", office.Addr(), mailTo))
	return w.notifier(`
channels: {mail: {kind: email, url_file: $DIR/smtp.url}}
routes: [{to: mail, rule: order-late, group_wait: 0s}]
`)
}

// mailState returns the attempts to send the alert about a, and its error, and checks that the channel has the same error.
func (w *fixture) mailState(n *notify.Notifier) string {
	w.t.Helper()
	d := must[[]alerts.Delivery](w.t)(w.Deliveries(w.t.Context(), w.alertOf("a")))[0]
	if c := must[[]alerts.ChannelState](w.t)(n.Channels(w.t.Context()))[0]; c.Error != d.Error || (c.Tries > 0) != (d.State == alerts.Waiting) {
		w.t.Errorf("the channel: %+v; the delivery: %+v", c, d)
	}
	return fmt.Sprintf("%s after %d: %s", d.State, d.Tries, d.Error)
}

// TestRefusedRecipientGetsNoRepeatedMail checks that recipients that the server refuses for good are reported, and that the others
// get the mail once.
func TestRefusedRecipientGetsNoRepeatedMail(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		office, logged := newSMTPServer(t), new(strings.Builder)
		w.log = slog.NewTextHandler(logged, nil)
		n := w.mailNotifier(office)
		office.setAnswers(map[string]string{"gone@example.org": "550 no such user"})
		w.fire(alerts.Error, nil, "a")
		for range 3 {
			w.advance(n, time.Hour)
		}
		const refusal = `mail to gone@example.org: 550 "no such user"`
		if got, want := w.mailState(n), "sent after 1: "+refusal; got != want || fmt.Sprint(office.to) != "[ops@example.org,boss@example.org]" {
			t.Errorf("%q, want %q; mails to %q", got, want, office.to)
		}
		if text := logged.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, `gone@example.org: 550 \"no such user`) {
			t.Errorf("logged: %s", text)
		}
		office.setAnswers(nil)
		w.raise(alerts.Error, nil, "a")
		w.advance(n, time.Hour)
		if got := w.mailState(n); got != "sent after 1: " {
			t.Errorf("after a mail that all recipients took: %q", got)
		}
		if raised := w.systemAlerts(); len(raised) > 0 {
			t.Errorf("%+v", raised)
		}
	})
}

// TestMailIsRepeatedForRecipientsPutOff checks that an attempt after one that some recipients took is for those that were put off
// alone, and that the refused ones are reported at last.
func TestMailIsRepeatedForRecipientsPutOff(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		office := newSMTPServer(t)
		n := w.mailNotifier(office)
		const refusal, greylisted = `mail to gone@example.org: 550 "no such user"`, `mail to boss@example.org: 451 "greylisted"`
		office.setAnswers(map[string]string{"gone@example.org": "550 no such user", "boss@example.org": "451 greylisted"})
		w.fire(alerts.Error, nil, "a")
		for tries := range 2 {
			w.advance(n, time.Hour)
			if got, want := w.mailState(n), fmt.Sprintf("waiting after %d: %s %s", tries+1, greylisted, refusal); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		office.setAnswers(map[string]string{"gone@example.org": "550 no such user"})
		w.advance(n, time.Hour)
		if got, want := w.mailState(n), "sent after 3: "+refusal; got != want || fmt.Sprint(office.to) != "[ops@example.org boss@example.org]" {
			t.Errorf("%q, want %q; mails to %q", got, want, office.to)
		}
		mails := office.received()
		if first, last := parseMail(t, mails[0]).header, parseMail(t, mails[1]).header; first.Get("Message-Id") != last.Get("Message-Id") || first.Get("To") != last.Get("To") {
			t.Errorf("the mails differ: %v and %v", first, last)
		}
		if want := mailTo + ",boss@example.org,boss@example.org"; strings.Join(office.requested, ",") != want {
			t.Errorf("the server got %q, want %q", office.requested, want)
		}
	})
}

// TestMailWithoutRecipientFails checks that a mail is repeated for all recipients if the server accepts none of them.
func TestMailWithoutRecipientFails(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		office := newSMTPServer(t)
		n := w.mailNotifier(office)
		refusals := make(map[string]string)
		for to := range strings.SplitSeq(mailTo, ",") {
			refusals[to] = "554 blocked"
		}
		office.setAnswers(refusals)
		w.fire(alerts.Error, nil, "a")
		w.advance(n, time.Hour)
		if got := w.mailState(n); !strings.HasPrefix(got, "waiting after 1: ") || strings.Count(got, `554 "blocked"`) != 3 {
			t.Error(got)
		}
		office.setAnswers(nil)
		w.advance(n, time.Hour)
		if got := w.mailState(n); got != "sent after 2: " || strings.Join(office.to, " ") != mailTo {
			t.Errorf("%q; mails to %q", got, office.to)
		}
	})
}

func TestManyAlertsAreFewLines(t *testing.T) {
	var many []alerts.Alert
	for i := range 500 {
		a := firingAlert(fmt.Sprint(i))
		a.DecidedAt = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC).Add(time.Duration(i%7) * time.Minute)
		many = append(many, a)
	}
	m := newMessage(many...)
	m.Notification.Alerts = 4822
	m.Counts = []alerts.KeyCount{
		{Rule: "order-late", Severity: alerts.Critical, Count: 500},
		{Rule: "order-late", Severity: alerts.Warning, Count: 4000},
		{Rule: "order-late", Severity: alerts.Info, Count: 1},
		{Rule: "order-late", Resolved: true, Severity: alerts.Info, Count: 20},
	}
	text := m.Text()
	if lines := strings.Count(text, "\n"); lines != 12 || !strings.Contains(text, "and 4,511 more: 490 critical, 4,000 warnings, 1 info, 20 resolved\nhttps://deadman.example.org/alerts?rule=order-late\n") {
		t.Errorf("%d lines: %s", lines, text)
	}
	if got := m.Title(); got != "[CRITICAL] order-late: 500 critical, 4,000 warnings, 1 info, 20 resolved" {
		t.Error(got)
	}
}

// The link of a message with many alerts leads to the open ones with their common values, or to all if none is open. A
// severity counts only if the alerts are grouped by it.
func TestLinkOfMany(t *testing.T) {
	const list = "https://deadman.example.org/alerts"
	one, other := firingAlert("1"), firingAlert("1")
	other.Severity = alerts.Warning
	gathered := newMessage(one, firingAlert("2"))
	gathered.Topic, gathered.Notification.Alerts = "*", 600 // none of them is loaded
	graded := newMessage(one, firingAlert("2"))
	graded.Topic = "rule=order-late severity=critical"
	first, second := firingAlert("1"), firingAlert("2")
	first.Status, second.Status = alerts.Resolved, alerts.Resolved
	first.DecidedAt, second.DecidedAt = time.Date(2026, 1, 2, 3, 14, 5, 0, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	over := newMessage(first, second)
	for want, m := range map[string]notify.Message{
		list + "?entity=order&key=1&rule=order-late":                                  newMessage(one, other),
		list + "?entity=order&rule=order-late":                                        newMessage(one, firingAlert("2")),
		list + "?entity=order&rule=order-late&severity=critical":                      graded,
		list + "?decided_after=2026-01-02T03%3A04%3A05Z&entity=order&rule=order-late": over,
		list:                                   gathered,
		"https://deadman.example.org/alerts/1": newMessage(one),
	} {
		if got := m.Link(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The requests of all services use the given client, which follows no redirects.
func TestServicesAreBounded(t *testing.T) {
	for name, url := range map[string]string{
		"discord": "discord://token-of-the-hook@123456789012345678",
		"matrix":  "matrix://:a-long-access-token@matrix.example.org/?rooms=!room:example.org",
		"zulip":   "zulip://bot%40example.org:a-long-key@zulip.example.org/?stream=ops&topic=deadman",
		"teams":   "generic+https://hook.example.org/a",
		"ntfy":    "ntfy://ntfy.example.org/deadman",
	} {
		t.Run(name, func(t *testing.T) {
			e := newWebhookReceiver(t)
			e.setStatus(http.StatusTemporaryRedirect)
			c, err := notify.Open(notify.Spec{Name: "c", Kind: notify.Shoutrrr, URL: url}, serviceClient(t, e))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Send(t.Context(), newMessage(firingAlert("1"))); err == nil {
				t.Error("a redirect passes for success")
			}
			got := e.received()
			if len(got) == 0 {
				t.Error("its requests go elsewhere")
			}
			for _, p := range got {
				if p.path == "/elsewhere" {
					t.Error("a redirect is followed")
				}
			}
		})
	}
}

// Matrix with a user would log in with its own client, even while the file is read.
func TestMatrixTakesTokenOnly(t *testing.T) {
	e := newWebhookReceiver(t)
	_, err := notify.Open(notify.Spec{Name: "c", Kind: notify.Shoutrrr, URL: "matrix://ada:secret-password@" + strings.TrimPrefix(e.URL, "http://") + "/?disableTLS=yes"}, serviceClient(t, e))
	if err == nil || !strings.Contains(err.Error(), "access token") || strings.Contains(err.Error(), "secret-password") {
		t.Errorf("%v", err)
	}
	if got := e.received(); len(got) != 0 {
		t.Errorf("it was asked %+v", got)
	}
}

// The error of a channel is shown to all readers, and logged.
func TestReasonsHaveNoSecrets(t *testing.T) {
	s := newWebhookReceiver(t)
	s.Close()
	const secret = "T00000000-B00000000-sEcReTsEcReTsEcReTsEcReT"
	hook := s.URL + "/services/" + secret
	for _, c := range []notify.Spec{
		{Name: "c", Kind: notify.Webhook, URL: hook},
		{Name: "c", Kind: notify.Webhook, URL: s.URL + "/?token=" + secret},
		{Name: "c", Kind: notify.Shoutrrr, URL: "generic+" + hook},
	} {
		n, err := notify.New(notify.Options{
			Config: notify.Config{Channels: []notify.Spec{c}}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		reason, err := n.Test(t.Context(), "c")
		if err != nil || reason == "" {
			t.Errorf("a server that is gone took a message: %v", err)
		}
		if strings.Contains(reason, "sEcReT") {
			t.Errorf("%s: the text is %q", c.Kind, reason)
		}
	}
}

// A receiver may echo the request in its response.
func TestReasonsHaveNoSecretsOfReceivers(t *testing.T) {
	const secret = "sEcReTsEcReT"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "there is no hook "+r.URL.Path, http.StatusNotFound)
	}))
	t.Cleanup(echo.Close)
	client := notify.NewClient()
	defer client.CloseIdleConnections()
	n, err := notify.New(notify.Options{
		Config: notify.Config{Channels: []notify.Spec{{Name: "c", Kind: notify.Webhook, URL: echo.URL + "/" + secret}}},
		Client: client, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if reason, err := n.Test(t.Context(), "c"); err != nil || reason != "it answers 404 Not Found: there is no hook /…" {
		t.Errorf("%q, %v", reason, err)
	}
}

// Reading an endless response is bounded.
func TestAnswersAreBounded(t *testing.T) {
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(endless.Close)
	client := notify.NewClient()
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endless.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); n != 64<<10 || err != nil {
		t.Errorf("%d bytes were read: %v", n, err)
	}
}

// Programs receive alerts unchanged. The directly displayable title contains no bidirectional control characters.
func TestWebhooksGetVisibleTitle(t *testing.T) {
	e := newWebhookReceiver(t)
	c, err := notify.Open(notify.Spec{Name: "w", Kind: notify.Webhook, URL: e.URL}, notify.NewClient())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), newMessage(firingAlert("a\u202eb"))); err != nil {
		t.Fatal(err)
	}
	var got notify.WebhookMessage
	if err := json.Unmarshal([]byte(e.received()[0].body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Data.Title != "[CRITICAL] order a⟨U+202E⟩b waits" || got.Data.Alerts[0].Key != "a\u202eb" {
		t.Errorf("%+v", got.Data)
	}
}
