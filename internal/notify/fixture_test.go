package notify_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/notify"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/internal/testdisk"
	"deadman/rules"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testdisk.InMemory(m), goleak.IgnoreAnyFunction("deadman/internal/store/storetest.(*Cluster).await")) // it ends with the process
}

// onBothDatabases runs a test on a database of each kind.
func onBothDatabases(t *testing.T, test func(*testing.T, *fixture)) {
	for name, options := range map[string]func(*testing.T) store.Options{
		"sqlite":   func(t *testing.T) store.Options { return store.Options{DataDir: storetest.DataDir(t)} },
		"postgres": func(t *testing.T) store.Options { return store.Options{DatabaseURL: storetest.Postgres(t)} },
	} {
		t.Run(name, func(t *testing.T) { test(t, openFixture(t, options(t))) })
	}
}

func openFixture(t *testing.T, o store.Options) *fixture {
	o.Log, o.Shards = slog.New(slog.DiscardHandler), 4
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return newFixture(t, s)
}

// fixture is a database of alerts for notification, with one rule, a clock that stands still, and a receiver of
// messages.
type fixture struct {
	*store.Store
	t        *testing.T
	rule     *futurejobs.Rule
	held     []futurejobs.HeldShard
	now      time.Time
	receiver *webhookReceiver
	dir      string

	outlook   func(context.Context, alerts.Alert) (notify.Outlook, error)
	elsewhere bool  // another node is the notifying node
	announced error // of raising an alert about the node
	log       slog.Handler

	mu       sync.Mutex
	attempts map[string]int // by channel and outcome
}

func newFixture(t *testing.T, s *store.Store) *fixture {
	w := &fixture{Store: s, t: t, receiver: newWebhookReceiver(t), dir: t.TempDir(), log: slog.DiscardHandler}
	saved := must[rules.RuleVersion](t)(s.Save(t.Context(), rules.RuleVersion{Name: "order-late", Entity: "order", Document: []byte(`{}`)}, rules.AnyVersion))
	w.rule = &futurejobs.Rule{
		ID: saved.RuleID, Version: saved.Version, Name: saved.Name, Entity: saved.Entity,
		Grid: futurejobs.Grid(time.Second), MaxSeverity: alerts.Critical,
	}
	for _, l := range must[[]futurejobs.Lease](t)(s.Leases(t.Context())) {
		got, ok, err := s.Take(t.Context(), "me", l.HeldShard, time.Hour)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		w.held = append(w.held, got.HeldShard)
	}
	w.now = must[time.Time](t)(s.Now(t.Context()))
	w.must(s.Notify(t.Context(), true))
	return w
}

// batchOf leaves out whether other alerts of a queue are left.
func batchOf(found []alerts.Alert, _ bool, err error) ([]alerts.Alert, error) { return found, err }

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (w *fixture) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// notifier returns a notifier with a configuration; $URL stands for the ear's URL and $DIR for a folder for files.
func (w *fixture) notifier(file string) *notify.Notifier {
	w.t.Helper()
	return w.notifierOf(w.config(file))
}

func (w *fixture) config(file string) notify.Config {
	w.t.Helper()
	return must[notify.Config](w.t)(notify.Parse([]byte(w.writeChannelFile(file)), filepath.Join(w.dir, "notify.yaml")))
}

func (w *fixture) notifierOf(config notify.Config) *notify.Notifier {
	w.t.Helper()
	client := notify.NewClient()
	w.t.Cleanup(client.CloseIdleConnections)
	w.attempts = make(map[string]int)
	n, err := notify.New(notify.Options{
		Count: func(channel, outcome string, n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.attempts[channel+" "+outcome] += n
		},
		CountGivenUp: func(channel string, n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.attempts[channel+" given up"] += n
		},
		Config: config, Store: w.Store, Client: client, Holds: func() bool { return !w.elsewhere }, Now: func() time.Time { return w.now },
		Announce: func(ctx context.Context, r alerts.SystemAlert) error {
			if w.announced != nil {
				return w.announced
			}
			_, _, err := w.WriteSystemAlert(ctx, r)
			return err
		},
		Outlook: w.outlook, Describe: func(rule string) string { return "about " + rule },
		PublicURL: "https://deadman.example.org", Log: slog.New(w.log),
	})
	w.must(err)
	return n
}

func (w *fixture) writeChannelFile(file string) string {
	return strings.NewReplacer("$URL", w.receiver.URL, "$DIR", w.dir).Replace(file)
}

// secret writes a file.
func (w *fixture) secret(name, text string) {
	w.t.Helper()
	w.must(os.WriteFile(filepath.Join(w.dir, name), []byte(text+"\n"), 0o600))
}

// advance advances the clock, runs one step of the notifier, and waits for its messages.
func (w *fixture) advance(n *notify.Notifier, d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	w.must(n.Step(w.t.Context()))
	n.Finish()
}

func (w *fixture) batch(effects ...futurejobs.Effect) {
	w.t.Helper()
	set := must[int64](w.t)(w.Revision(w.t.Context()))
	must[futurejobs.ApplyResult](w.t)(w.Apply(w.t.Context(), futurejobs.EffectBatch{RuleSet: set, Effects: effects}))
}

func (w *fixture) ref(key string) futurejobs.Ref {
	return futurejobs.Ref{Shard: futurejobs.ShardOf("order", key, w.Shards()), RuleID: w.rule.ID, Key: key}
}

// fire creates a job for each key, and decides a firing alert about each.
func (w *fixture) fire(severity alerts.Severity, labels map[string]string, keys ...string) {
	w.t.Helper()
	var starts []futurejobs.Effect
	for _, key := range keys {
		starts = append(starts, futurejobs.Effect{Rule: w.rule, Ref: w.ref(key), Action: futurejobs.Start{
			Job: futurejobs.Job{Version: w.rule.Version, Since: w.now.Add(-time.Hour), FirstCheckAt: w.now},
		}})
	}
	w.batch(starts...)
	w.raise(severity, labels, keys...)
}

// raise decides a firing alert about the job of each key.
func (w *fixture) raise(severity alerts.Severity, labels map[string]string, keys ...string) {
	w.t.Helper()
	wanted := make(map[string]bool)
	for _, key := range keys {
		wanted[key] = true
	}
	walks := make([]futurejobs.ShardCursor, w.Shards())
	for i := range walks {
		walks[i] = futurejobs.ShardCursor{Shard: int16(i), ID: -1 << 63}
	}
	due := must[[]futurejobs.Job](w.t)(w.Due(w.t.Context(), futurejobs.DueQuery{Cursors: walks, Until: w.now.AddDate(1, 0, 0), Limit: 100_000}))
	s := futurejobs.Settlement{Held: w.held, RuleSet: must[int64](w.t)(w.Revision(w.t.Context()))}
	for _, j := range due {
		if !wanted[j.Key] {
			continue
		}
		slot := j.NextCheckAt
		j.CheckCount++
		j.NextCheckAt = slot.Add(time.Hour)
		a := alerts.Alert{
			ID:   alerts.Decision{JobID: j.ID, CreatedAt: j.CreatedAt, Check: j.CheckCount, Status: alerts.Firing, At: slot}.ID(),
			Rule: w.rule.Name, RuleVersion: 1, Entity: "order", Key: j.Key, DecidedAt: w.now, Shard: j.Shard, RuleID: w.rule.ID,
			Detail: alerts.Detail{
				Draft: alerts.Draft{Status: alerts.Firing, Severity: severity, Step: "primary", Text: "order " + j.Key + " waits", Labels: labels},
				Since: j.Since, Slot: slot,
			},
		}
		j.Alerts = append(j.Alerts, a.ID)
		s.Decisions = append(s.Decisions, &futurejobs.Decision{Job: j, Alerts: []alerts.Alert{a}})
	}
	if got := must[futurejobs.Settled](w.t)(w.Settle(w.t.Context(), s)); got.Alerts != len(keys) {
		w.t.Fatalf("%d alerts decided, want %d", got.Alerts, len(keys))
	}
}

// resolve ends the jobs of keys as resolved, with alerts.
func (w *fixture) resolve(keys ...string) {
	w.t.Helper()
	var ends []futurejobs.Effect
	for _, key := range keys {
		ends = append(ends, futurejobs.Effect{Rule: w.rule, Ref: w.ref(key), Action: futurejobs.End{
			Outcome: "resolved", Close: func(futurejobs.Job) alerts.Draft {
				return alerts.Draft{Status: alerts.Resolved, Severity: alerts.Info, Text: "it happened"}
			},
		}})
	}
	w.batch(ends...)
}

// alertOf returns the newest alert about a key.
func (w *fixture) alertOf(key string) alerts.Alert { return w.alertWith(key, "") }

// alertWith returns the newest alert about a key with a status; empty: any.
func (w *fixture) alertWith(key string, status alerts.Status) alerts.Alert {
	w.t.Helper()
	page, err := w.Alerts(w.t.Context(), futurejobs.Filter{Key: key, Entity: "order", Status: status})
	w.must(err)
	if len(page.Items) == 0 {
		w.t.Fatalf("no alert about %s", key)
	}
	return page.Items[0].Alert
}

// deliveryState returns the deliveries of the newest alert about a key.
func (w *fixture) deliveryState(key string) string {
	w.t.Helper()
	var all []string
	for _, d := range must[[]alerts.Delivery](w.t)(w.Deliveries(w.t.Context(), w.alertOf(key))) {
		all = append(all, fmt.Sprintf("%s %s after %d", d.Channel, d.State, d.Tries))
	}
	return strings.Join(all, ", ")
}

// webhookReceiver is a server that records requests.
type webhookReceiver struct {
	*httptest.Server
	mu     sync.Mutex
	posts  []post
	status int // of its responses; 0: 200
	during func()
}

// post is a received request.
type post struct {
	path   string
	header http.Header
	body   string
}

func newWebhookReceiver(t *testing.T) *webhookReceiver {
	e := &webhookReceiver{}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *webhookReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.posts = append(e.posts, post{r.URL.Path, r.Header, string(body)})
	if e.during != nil {
		e.during()
	}
	if e.status != 0 {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(e.status)
	}
}

// setStatus sets the status of further responses.
func (e *webhookReceiver) setStatus(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

// received returns the requests since the last call.
func (e *webhookReceiver) received() []post {
	e.mu.Lock()
	defer e.mu.Unlock()
	received := e.posts
	e.posts = nil
	return received
}

// message is a message as received by a webhook.
type message struct {
	Channel, Route, Topic, Title, URL string
	Count, Truncated                  int
	Alerts                            []struct {
		Key    string
		Status alerts.Status
	}
}

func (m message) String() string {
	return fmt.Sprintf("%s %q: %d alerts, %d of them shown", m.Channel, m.Title, m.Count, len(m.Alerts))
}

// decodeMessages decodes the messages of webhook requests.
func decodeMessages(t *testing.T, posts []post) []message {
	t.Helper()
	all := make([]message, len(posts))
	for i, p := range posts {
		if err := json.Unmarshal([]byte(p.body), &struct{ Data *message }{&all[i]}); err != nil {
			t.Fatalf("%.200s: %v", p.body, err)
		}
	}
	return all
}

// webhookData decodes the data of webhook requests.
func webhookData(t *testing.T, posts []post) []notify.WebhookData {
	t.Helper()
	all := make([]notify.WebhookData, len(posts))
	for i, p := range posts {
		var m struct {
			Data struct {
				notify.WebhookData
				Alerts []struct{ ID string }
			}
		}
		if err := json.Unmarshal([]byte(p.body), &m); err != nil {
			t.Fatalf("%.200s: %v", p.body, err)
		}
		all[i] = m.Data.WebhookData
	}
	return all
}

// hookSecret is a secret in the form of Standard Webhooks.
var hookSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

func numberedKeys(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%04d", prefix, i)
	}
	return all
}

func prune(w *fixture, d time.Duration) error {
	_, err := w.Prune(w.t.Context(), store.Retention{Alerts: d})
	return err
}
