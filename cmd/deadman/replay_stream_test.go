package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
	"deadman/server"
)

// storedOrders is a broker with a stream of the events of orders: of ten orders, the first five are shipped.
func storedOrders(t *testing.T) (url string, js jetstream.JetStream) {
	t.Helper()
	o := bustest.Options(t)
	o.Users = []*natsserver.User{{Username: "ada", Password: "secret"}, {Username: "bob", Password: "secret", Permissions: &natsserver.Permissions{
		Publish: &natsserver.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO.*"}},
	}}}
	broker := bustest.Serve(t, o)
	js = bustest.JetStream(t, bustest.As(broker, "ada"))
	for _, cfg := range []jetstream.StreamConfig{{Name: "ORDERS", Subjects: []string{"orders.>"}}, {Name: "EMPTY", Subjects: []string{"none"}}} {
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(subject string, id int) {
		m := &nats.Msg{Subject: subject, Data: fmt.Appendf(nil, `{"id": "%d"}`, id)}
		if subject == "orders.shipped" {
			m.Header = nats.Header{"Content-Type": {"application/cloudevents+json"}}
			m.Data = fmt.Appendf(nil, `{"specversion": "1.0", "type": "x", "source": "shop", "id": "s%d", "data": %s}`, id, m.Data)
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		publish("orders.created", i)
		publish("orders.ignored", i)
		if i < 5 {
			publish("orders.shipped", i)
		}
	}
	return bustest.As(broker, "ada"), js
}

// A stream is played up to its last message at the start, and no consumer is left there.
func TestReplayStream(t *testing.T) {
	t.Parallel()
	url, js := storedOrders(t)
	rule := writeFile(t, t.TempDir(), "rule.yaml", replayedRule)
	replayStream := func(args ...string) result {
		t.Helper()
		return runInProcess(t, "", []string{"DEADMAN_NATS_URL=" + url}, append([]string{"replay", "-f", rule, "--summary"}, args...)...)
	}
	later := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	got := replayStream("--stream", "ORDERS", "--since", "-7d", "--until", later)
	got.check(t, nil, 0, "25 events (15 on subjects of the rules) from", "order-unshipped  10    5        0     0      5", "late 5")
	stream, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.Consumers != 0 {
		t.Errorf("the stream has %d consumers, %v", info.State.Consumers, err)
	}
	if _, err := js.Stream(t.Context(), bus.AlertsStream); err == nil {
		t.Error("the replay created a stream")
	}
	asBob, asEve := strings.Replace(url, "ada", "bob", 1), strings.Replace(url, "ada", "eve", 1)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--stream", "ORDERS", "--since", "2020-01-01", "--until", "2020-01-02"}, 2, "stream ORDERS has no messages since 2020-01-01 00:00:00 UTC until 2020-01-02 00:00:00 UTC; its first message is of "},
		{[]string{"--stream", "ORDERS", "--since", later}, 2, "stream ORDERS has no messages since "},
		{[]string{"--stream", "EMPTY"}, 2, "stream EMPTY is empty"},
		{[]string{"--stream", "NONE"}, 2, "there is no stream NONE"},
		{[]string{"--stream", "ORDERS", "--events", "-"}, 2, "--stream excludes --events"},
		{[]string{"--stream", "ORDERS", "--nats-url", asEve}, 1, "DEADMAN_NATS_CREDS"},
		{[]string{"--stream", "ORDERS", "--nats-url", asBob}, 1, "$JS.API.CONSUMER.CREATE.ORDERS"},
		{[]string{"--stream", "ORDERS", "--nats-url", "nats://127.0.0.1:1"}, 1, "connect"},
		{[]string{"--stream", "ORDERS", "--nats-creds", "none", "--nats-url", "nats://127.0.0.1:1"}, 1, "none"},
	} {
		replayStream(c.args...).check(t, c.args, c.code, c.want)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeKeep(20)); err != nil {
		t.Fatal(err)
	}
	// Without --until the replay ends at its own start, so that the alert about an event that is missing by then is raised.
	soon := writeFile(t, t.TempDir(), "soon.yaml", strings.Replace(replayedRule, "after: 3h", "after: 1s", 1)+"slot: 1s\n")
	testwait.Until(t, "the alerts of orders that are not shipped", func() bool {
		got := runInProcess(t, "", []string{"DEADMAN_NATS_URL=" + url}, "replay", "-f", soon, "--summary", "--stream", "ORDERS", "--since", "24h")
		return strings.Contains(got.out, "late 5")
	})
	runInProcess(t, "", []string{"DEADMAN_NATS_URL=" + url}, "replay", "-f", soon, "--summary", "--stream", "ORDERS", "--until", "now").check(t, nil, 0, "late 5")
	const warning = "warning: Stream ORDERS has deleted its events before "
	purged := replayStream("--stream", "ORDERS", "--since", "-7d")
	purged.check(t, nil, 0, "20 events (12 on subjects of the rules) from")
	if !strings.HasPrefix(purged.err, warning) || !strings.Contains(purged.err, "; jobs of earlier events are missing.\n") || strings.Contains(purged.out+got.err, warning) {
		t.Errorf("after a purge: %q, output %q; before: %q", purged.err, purged.out, got.err)
	}
	if all := replayStream("--stream", "ORDERS"); strings.Contains(all.err, "warning: ") {
		t.Errorf("without a range: %q", all.err)
	}
	middle := time.Now()
	for seq := uint64(10); seq < 16; seq++ {
		if err := stream.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "orders.created", []byte(`{"id": "later"}`)); err != nil {
		t.Fatal(err)
	}
	const between = " has deleted 6 events between others; jobs that they start are missing, and jobs that they end stay pending.\n"
	for since, want := range map[string]string{"": "warning: Stream ORDERS" + between, "-7d": "; jobs of earlier events are missing. It" + between} {
		if got := replayStream("--stream", "ORDERS", "--since="+since); !strings.Contains(got.err, want) || !strings.Contains(got.out, "15 events (") {
			t.Errorf("since %q with deleted events: %q, %q", since, got.err, got.out)
		}
	}
	if got := replayStream("--stream", "ORDERS", "--since", middle.UTC().Format(time.RFC3339Nano)); strings.Contains(got.err, "between others") || !strings.Contains(got.out, "1 event from") {
		t.Errorf("since the deleted events: %q, %q", got.err, got.out)
	}
	runInProcess(t, "", nil, "replay", "-f", rule, "--stream", "ORDERS").check(t, nil, 2, "name it with --nats-url or DEADMAN_NATS_URL")
}

// The stream of a node's own events is replayed to the alerts that the node raised, with the same ids.
func TestReplayStreamOfNode(t *testing.T) {
	t.Parallel()
	node := newInProcessNode(t)
	rule := writeFile(t, t.TempDir(), "rule.yaml", strings.Replace(replayedRule, "after: 3h", "after: 2s", 1)+"slot: 1s\n")
	node.mustRun("rule", "apply", rule)
	node.mustRun("event", "send", "orders.shipped", `{"id": "old"}`) // before the replay, so that its sequences do not begin at 1
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	since := time.Now().UTC().Format(time.RFC3339)
	for i := range 4 {
		node.mustRun("event", "send", "orders.created", fmt.Sprintf(`{"id": "%d"}`, i))
	}
	node.mustRun("event", "send", "orders.shipped", `{"id": "0"}`)
	type alert struct{ ID, Key, Step, Status, Text string }
	var raised []alert
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for raised = nil; len(raised) < 3; time.Sleep(200 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("the node raised %v", raised)
		}
		raised = readJSON[struct{ Items []alert }](node, "alert", "list").Items
	}
	node.mustRun("event", "send", "orders.shipped", `{"id": "1"}`)
	for len(raised) < 4 && ctx.Err() == nil {
		raised = readJSON[struct{ Items []alert }](node, "alert", "list").Items
	}
	secret, err := os.ReadFile(filepath.Join(node.dir, bus.UsersDir, bus.UserAdmin))
	if err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(node.at.NATS, "://", "://"+bus.UserAdmin+":"+strings.TrimSpace(string(secret))+"@", 1)
	replayed := readJSON[struct{ Alerts []alert }](node, "replay", "-f", rule, "--stream", bus.EventsStream, "--since", since, "--nats-url", url).Alerts
	byID := func(all []alert) map[string]alert {
		found := make(map[string]alert)
		for _, a := range all {
			found[a.ID] = a
		}
		return found
	}
	if diff := cmp.Diff(byID(raised), byID(replayed)); diff != "" || len(raised) != 4 {
		t.Errorf("%d alerts (-node +replay):\n%s", len(raised), diff)
	}
}

// A replay of a node, of a draft and of a saved rule, has the alerts of the command for the same stream and range.
func TestReplayOfNodeAgreesWithCommand(t *testing.T) {
	t.Parallel()
	url, _ := storedOrders(t)
	node := newInProcessNode(t, func(c *server.Config) { c.NATSURL, c.NATSAddr = url, "" })
	text := strings.Replace(replayedRule, "after: 3h", "after: 1s", 1) + "slot: 1s\n"
	rule := writeFile(t, t.TempDir(), "rule.yaml", text)
	node.mustRun("rule", "apply", rule)
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(3 * time.Second))) // the steps are over
	draft, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	type alert struct{ Slot, Entity, Key, Step, Severity, Status, Text, Since string }
	type replayed struct {
		ID, State, Reason, Until string
		Result                   struct {
			Alerts  []alert
			Summary map[string]any
		}
	}
	for path, body := range map[string]string{
		"/api/v1/rules/order-unshipped/replays": fmt.Sprintf(`{"since": %q}`, since),
		"/api/v1/rules/replays":                 fmt.Sprintf(`{"since": %q, "rule": %s}`, since, draft),
	} {
		r := callNode[replayed](t, http.MethodPost, node.at.HTTP+path, body)
		for r.State == "running" {
			time.Sleep(10 * time.Millisecond)
			r = callNode[replayed](t, http.MethodGet, node.at.HTTP+"/api/v1/replays/"+r.ID, "")
		}
		if r.State != "done" {
			t.Fatalf("%+v", r)
		}
		type printed struct {
			Alerts []alert
			Rules  []map[string]any
		}
		want := readJSON[printed](node, "replay", "-f", rule, "--stream", "ORDERS", "--since", since, "--until", r.Until, "--nats-url", url)
		if diff := cmp.Diff(want, printed{r.Result.Alerts, []map[string]any{r.Result.Summary}}); diff != "" || len(r.Result.Alerts) < 5 {
			t.Errorf("%s: %d alerts (-command +node):\n%s", path, len(r.Result.Alerts), diff)
		}
	}
}

// callNode sends a request to a node, and decodes the answer.
func callNode[T any](t *testing.T, method, url, body string) (v T) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if err := json.NewDecoder(a.Body).Decode(&v); err != nil || a.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %+v, %v", method, url, a.StatusCode, v, err)
	}
	return v
}
