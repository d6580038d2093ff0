package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/model"

	"deadman/alerts"
	"deadman/internal/notify"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// within bounds every wait for a program.
const within = 2 * time.Minute

// alertmanagerPrograms are the names of the program, in Debian's package and elsewhere.
var alertmanagerPrograms = []string{"prometheus-alertmanager", "alertmanager"}

// findAlertmanager returns the program, or skips the test with a remedy; it fails the test on a build server.
func findAlertmanager(t *testing.T) string {
	t.Helper()
	for _, name := range alertmanagerPrograms {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const remedy = "the test needs Alertmanager, and there is none; internal/tools/needs alertmanager installs it (Debian: apt-get install prometheus-alertmanager)"
	if os.Getenv("CI") != "" {
		t.Fatal(remedy)
	}
	t.Skip(remedy)
	return ""
}

// alertmanagerProgram is a running Alertmanager. Alerts without an end resolve after two seconds in it.
type alertmanagerProgram struct {
	t        *testing.T
	url      string
	receiver *webhookReceiver // of its notifications
}

func startAlertmanager(t *testing.T) *alertmanagerProgram {
	t.Helper()
	receiver := newWebhookReceiver(t)
	return startAlertmanagerOf(t, receiver, fmt.Sprintf(`
global: {resolve_timeout: 2s}
route: {receiver: test, group_by: [alertname, key], group_wait: 100ms, group_interval: 200ms, repeat_interval: 1h}
receivers:
  - {name: test, webhook_configs: [{url: %s, send_resolved: true}]}
`, receiver.URL))
}

// startAlertmanagerOf starts Alertmanager with a configuration, which notifies the receiver.
func startAlertmanagerOf(t *testing.T, receiver *webhookReceiver, text string) *alertmanagerProgram {
	t.Helper()
	path := findAlertmanager(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	var output bytes.Buffer
	command := exec.Command(path, "--config.file="+config, "--storage.path="+dir, "--web.listen-address="+address, "--cluster.listen-address=")
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil || t.Failed() {
			t.Logf("Alertmanager: %v\n%s", err, output.String())
		}
	})
	a := &alertmanagerProgram{t: t, url: "http://" + address, receiver: receiver}
	a.wait("Alertmanager is ready", func() bool {
		answer, err := http.Get(a.url + "/-/ready")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	return a
}

// freeAddress returns a local address that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// wait polls for a condition.
func (a *alertmanagerProgram) wait(what string, is func() bool) {
	a.t.Helper()
	for end := time.Now().Add(within); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// active returns the active alerts by key.
func (a *alertmanagerProgram) active() map[string]amAlert {
	a.t.Helper()
	active := make(map[string]amAlert)
	for _, one := range a.alerts() {
		active[string(one.Labels["key"])] = one
	}
	return active
}

// states returns the states of the alerts, by key and severity.
func (a *alertmanagerProgram) states() map[string]string {
	a.t.Helper()
	states := make(map[string]string)
	for _, one := range a.alerts() {
		states[string(one.Labels["key"]+" "+one.Labels["severity"])] = one.Status
	}
	return states
}

func (a *alertmanagerProgram) alerts() (all []amAlert) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/api/v2/alerts", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var found []struct {
		Labels, Annotations model.LabelSet
		StartsAt, EndsAt    time.Time
		GeneratorURL        string
		Status              struct{ State string }
		Receivers           any
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		a.t.Fatal(err)
	}
	for _, f := range found {
		all = append(all, amAlert{
			Status: f.Status.State, Labels: f.Labels, Annotations: f.Annotations, StartsAt: f.StartsAt, EndsAt: f.EndsAt, GeneratorURL: f.GeneratorURL,
		})
	}
	return all
}

// notified returns the alerts of a status in the notifications that Alertmanager has sent since the last call.
func (a *alertmanagerProgram) notified(status string) (all []amAlert) {
	a.t.Helper()
	for _, p := range a.receiver.received() {
		var m amMessage
		if err := json.Unmarshal([]byte(p.body), &m); err != nil {
			a.t.Fatal(err)
		}
		for _, one := range m.Alerts {
			if one.Status == status {
				all = append(all, one)
			}
		}
	}
	return all
}

// TestRealAlertmanager runs a notifier with a real Alertmanager, on the real clock of both.
func TestRealAlertmanager(t *testing.T) {
	t.Parallel()
	am := startAlertmanager(t)
	w := openFixture(t, store.Options{DataDir: storetest.DataDir(t)})
	config := w.config(`
channels: {am: {kind: alertmanager, url: "` + am.url + `"}}
routes: [{to: am}]
`)
	config.Channels[0].Resend = time.Second // an alert that is not sent again ends after four
	n := w.notifierOf(config)
	step := func() {
		t.Helper()
		w.now = time.Now()
		w.advance(n, 0)
	}
	stepUntil := func(what string, is func() bool) {
		t.Helper()
		am.wait(what, func() bool {
			step()
			return is()
		})
	}

	w.fire(alerts.Critical, map[string]string{"site-name": "north"}, "a", "b")
	stepUntil("both alerts are active", func() bool { return len(am.active()) == 2 })
	a, raised := am.active()["a"], w.alertOf("a")
	if !a.Labels.Equal(model.LabelSet{"alertname": "order-late", "entity": "order", "key": "a", "severity": "critical", "step": "primary", "site_name": "north"}) {
		t.Errorf("labels %s", a.Labels)
	}
	if a.Status != "active" || a.StartsAt.Sub(raised.Since).Abs() > time.Millisecond || a.Annotations["summary"] != "order a waits" || !strings.HasSuffix(a.GeneratorURL, "/alerts/"+raised.ID.String()) {
		t.Errorf("%+v, raised as %+v", a, raised)
	}
	// It stays active past resolve_timeout and past its first end, and over a restart of the sender.
	for first := a.EndsAt; !time.Now().After(first.Add(time.Second)); time.Sleep(100 * time.Millisecond) {
		step()
	}
	time.Sleep(time.Second)
	n = w.notifierOf(config)
	step()
	if active := am.active(); len(active) != 2 || !active["a"].StartsAt.Equal(a.StartsAt) {
		t.Errorf("active after %s: %+v", time.Since(a.EndsAt), active)
	}
	if early := am.notified("resolved"); len(early) != 0 {
		t.Errorf("Alertmanager resolved %+v", early)
	}

	w.resolve("a")
	resolved := w.alertWith("a", alerts.Resolved)
	stepUntil("one alert is active", func() bool { return len(am.active()) == 1 })
	var ended []amAlert
	stepUntil("Alertmanager notifies of the end", func() bool {
		ended = append(ended, am.notified("resolved")...)
		return len(ended) > 0
	})
	if e := ended[0]; e.Labels["key"] != "a" || e.EndsAt.Sub(resolved.DecidedAt).Abs() > time.Millisecond || e.Annotations["summary"] != "it happened" {
		t.Errorf("resolved at %s, and Alertmanager has %+v", resolved.DecidedAt, e)
	}
	if reason, err := n.Test(t.Context(), "am"); reason != "" || err != nil {
		t.Errorf("a test of the channel: %q, %v", reason, err)
	}
	// Nothing sends the other alert again: Alertmanager resolves it.
	am.wait("no alert is active", func() bool { return len(am.active()) == 0 })
	am.wait("Alertmanager notifies of its end", func() bool {
		return slices.ContainsFunc(am.notified("resolved"), func(e amAlert) bool { return e.Labels["key"] == "b" })
	})
}

// guideBlock returns the YAML of a code block of the guide of Alertmanager that contains a text.
func guideBlock(t *testing.T, text string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/alertmanager.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(page), "```yaml\n")[1:] {
		if block, _, _ := strings.Cut(part, "```"); strings.Contains(block, text) {
			return block
		}
	}
	t.Fatalf("the guide has no block with %q", text)
	return ""
}

// guideConfig returns the guide's configuration of Alertmanager, with addresses for its receivers and short waits.
func guideConfig(t *testing.T, receiver *webhookReceiver) string {
	t.Helper()
	var config map[string]any
	if err := yaml.Unmarshal([]byte(guideBlock(t, "inhibit_rules:")), &config); err != nil {
		t.Fatal(err)
	}
	route := config["route"].(map[string]any)
	route["group_wait"], route["group_interval"] = "100ms", "200ms"
	for _, one := range config["receivers"].([]any) {
		r := one.(map[string]any)
		r["webhook_configs"] = []any{map[string]any{"url": fmt.Sprintf("%s/%s", receiver.URL, r["name"])}}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAlertmanagerOfGuide runs the configurations of docs/how-to/alertmanager.md: two real Alertmanagers that group, inhibit
// and route, and the channel to both.
func TestAlertmanagerOfGuide(t *testing.T) {
	t.Parallel()
	receiver := newWebhookReceiver(t)
	first := startAlertmanagerOf(t, receiver, guideConfig(t, receiver))
	second := startAlertmanagerOf(t, receiver, guideConfig(t, receiver))
	w := openFixture(t, store.Options{DataDir: storetest.DataDir(t)})
	n := w.notifierOf(w.config(strings.NewReplacer("http://am-1.example.org:9093", first.url, "http://am-2.example.org:9093", second.url).Replace(guideBlock(t, "urls:"))))
	statesAre := func(want map[string]string) {
		t.Helper()
		for _, am := range []*alertmanagerProgram{first, second} {
			am.wait(fmt.Sprintf("the alerts are %v", want), func() bool {
				w.now = time.Now()
				w.advance(n, 0)
				return maps.Equal(am.states(), want)
			})
		}
	}
	notified := make(map[string]bool) // receiver, key and severity
	isNotified := func(want string) {
		t.Helper()
		first.wait(want+" is notified", func() bool {
			for _, p := range receiver.received() {
				var m amMessage
				if err := json.Unmarshal([]byte(p.body), &m); err != nil {
					t.Fatal(err)
				}
				for _, one := range m.Alerts {
					notified[fmt.Sprintf("%s %s %s", strings.TrimPrefix(p.path, "/"), one.Labels["key"], one.Labels["severity"])] = true
				}
				if len(m.GroupLabels) != 1 || m.GroupLabels["alertname"] == "" {
					t.Errorf("grouped by %s, and the page says by alertname", m.GroupLabels)
				}
			}
			return notified[want]
		})
	}
	w.fire(alerts.Warning, nil, "1042", "1043")
	statesAre(map[string]string{"1042 warning": "active", "1043 warning": "active"})
	isNotified("team 1042 warning")
	isNotified("team 1043 warning")

	w.raise(alerts.Critical, nil, "1042") // its second step inhibits the first one, and no other order
	statesAre(map[string]string{"1042 warning": "suppressed", "1042 critical": "active", "1043 warning": "active"})
	isNotified("on-call 1042 critical")
	if notified["on-call 1042 warning"] || notified["on-call 1043 warning"] || notified["team 1042 critical"] {
		t.Errorf("notified: %v", notified)
	}
	if reason, err := n.Test(t.Context(), "am"); reason != "" || err != nil {
		t.Errorf("a test of the channel: %q, %v", reason, err)
	}
	isNotified("team channel/am info")
}

// TestChannelsOfAlertmanagerGuide opens the channels of docs/how-to/alertmanager.md.
func TestChannelsOfAlertmanagerGuide(t *testing.T) {
	t.Parallel()
	w := openFixture(t, store.Options{DataDir: storetest.DataDir(t)})
	w.secret("am.header", "Bearer x")
	for text, kind := range map[string]notify.Kind{"am.header": notify.Alertmanager, "alertmanager-webhook": notify.AlertmanagerWebhook} {
		config := w.config(guideBlock(t, text) + "routes: []\n")
		if len(config.Channels) != 1 || config.Channels[0].Kind != kind {
			t.Errorf("%s: %+v", text, config.Channels)
		}
	}
}

// TestRealAlertmanagerRefuses shows the errors of channels with a URL of another kind.
func TestRealAlertmanagerRefuses(t *testing.T) {
	t.Parallel()
	am := startAlertmanager(t)
	for spec, want := range map[*notify.Spec]string{
		{Kind: notify.Alertmanager, URL: am.url + "/elsewhere"}:              "has the kind alertmanager-webhook",
		{Kind: notify.AlertmanagerWebhook, URL: am.url + "/api/v2/alerts"}:   "it answers 400 Bad Request",
		{Kind: notify.Alertmanager, URLs: []string{am.url, am.receiver.URL}}: "",
	} {
		spec.Name = "c"
		client := notify.NewClient()
		c, err := notify.Open(*spec, client)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Send(t.Context(), newMessage(firingAlert("1")))
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%+v: %v", spec, err)
		}
		client.CloseIdleConnections()
	}
}
