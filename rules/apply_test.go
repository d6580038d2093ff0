package rules_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/rules/document"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/rules"
)

// newBroker starts an embedded server and a connection to it.
func newBroker(t testing.TB) (*bus.Server, *bus.Bus) {
	t.Helper()
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	b, err := bus.Connect(t.Context(), bus.Options{InProcess: server, Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return server, b
}

// newRegistry returns a registry over a store and a broker of the test's own.
func newRegistry(b *bus.Bus, s *store.Store) *rules.Registry {
	return &rules.Registry{Store: s, Binder: b.Binder, Catalog: rules.NewCatalog(s, s.Shards()), Jobs: s, Log: discardLog(), Now: time.Now}
}

// newFolder writes files and returns their folder.
func newFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	for name, text := range files {
		writeFile(t, filepath.Join(dir, name), text)
	}
	return dir
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// smallRule returns the shortest rule.
func smallRule(name, subject string) string {
	return "name: " + name + "\nentity: order\ntrigger: {event: " + subject + ", key: event.id}\nescalate: [{after: 3h}]\n"
}

func TestApplyDir(t *testing.T) {
	_, b := newBroker(t)
	s := openStore(t)
	dir := newFolder(t, map[string]string{
		"a.yaml":           smallRule("a", "orders.a") + "---\n" + smallRule("b", "orders.b"),
		"below/c.yml":      smallRule("c", "orders.c"),
		"d.json":           `{"name": "d", "entity": "order", "trigger": {"event": "orders.d", "key": "event.id"}, "escalate": [{"after": "3h"}]}`,
		"bad.yaml":         smallRule("bad", "orders.bad") + "slto: 1m\n",
		"worse.yaml":       "name: [",
		"z-again.yaml":     smallRule("a", "orders.again"),
		".hidden/e.yaml":   smallRule("e", "orders.e"),
		".f.yaml":          smallRule("f", "orders.f"),
		"notes.txt":        "nothing",
		"empty.yaml":       "",
		"large.yaml":       "#" + strings.Repeat("x", document.MaxSize),
		"README.yaml.orig": "name: x",
		"a.test.yaml":      "tests: []", // it has tests of rules
	})
	report, err := newRegistry(b, s).ApplyDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, report.Saved); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	var problems []string
	for _, p := range report.Problems {
		problems = append(problems, strings.ReplaceAll(p.Error(), dir+"/", ""))
	}
	want := []string{
		`bad.yaml:5:1: bad: slto: unknown field "slto"; did you mean "slot"?`,
		`empty.yaml:1:1: there is no rule here; one begins with "name:"`,
		`large.yaml:1:1: a file of rules may hold 262144 bytes, and this one holds more; split it`,
		`worse.yaml:1:7: not YAML: sequence end token ']' not found`,
		`z-again.yaml:1:7: a: name: the name is already used by the rule in a.yaml; names are unique`,
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if report.Refused != 5 {
		t.Errorf("%d rules refused, want 5", report.Refused)
	}

	catalog := newCatalog(t, s)
	if diff := cmp.Diff(map[string][]string{"DEADMAN_EVENTS": {"orders.a", "orders.b", "orders.c", "orders.d"}}, catalog.SubjectsByStream()); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

// TestApplyAgain checks that only changed rules are saved. A subject that moved to another stream is no change: a
// version that is saved would not receive the events that the stream stored before.
func TestApplyAgain(t *testing.T) {
	server, b := newBroker(t)
	s := openStore(t)
	dir := newFolder(t, map[string]string{"a.yaml": smallRule("a", "orders.a"), "b.yaml": smallRule("b", "orders.b")})
	apply := func() rules.Report {
		t.Helper()
		report, err := newRegistry(b, s).ApplyDir(t.Context(), dir)
		if err != nil || report.Problems != nil {
			t.Fatal(err, report.Problems)
		}
		return report
	}
	apply()
	writeFile(t, filepath.Join(dir, "a.yaml"), "# a comment is no change\n"+smallRule("a", "orders.a")+"slot: 60s\n")
	writeFile(t, filepath.Join(dir, "b.yaml"), smallRule("b", "orders.b")+"slot: 5m\n")
	report, names := apply(), cmpopts.IgnoreFields(rules.Report{}, "Applied")
	if diff := cmp.Diff(rules.Report{Saved: []string{"b"}, Unchanged: []string{"a"}}, report, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	js := bustest.JetStream(t, server.ClientURL())
	if err := js.DeleteStream(t.Context(), bus.EventsStream); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rules.Report{Unchanged: []string{"a", "b"}}, apply(), names); diff != "" {
		t.Errorf("a stream of another name (-want +got):\n%s", diff)
	}
	_, all, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || all[0].Bundle != "file:shop" {
		t.Errorf("%+v", all)
	}
}

// TestApplyRefused checks that an error while binding or saving is a problem of that rule alone.
func TestApplyRefused(t *testing.T) {
	server, b := newBroker(t)
	js := bustest.JetStream(t, "", nats.InProcessServer(server))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "WORK", Subjects: []string{"work.>"}, Retention: jetstream.WorkQueuePolicy}); err != nil {
		t.Fatal(err)
	}
	s := openStore(t)
	saveRule(t, s, 0, strings.Replace(smallRule("entity", "orders.x"), "order\n", "parcel\n", 1))
	dir := newFolder(t, map[string]string{
		"entity.yaml": smallRule("entity", "orders.x"), "good.yaml": smallRule("good", "orders.good"), "queue.yaml": smallRule("queue", "work.done"),
	})
	report, err := newRegistry(b, s).ApplyDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"good"}, report.Saved); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	if len(report.Problems) != 2 || report.Problems[0].Pointer != "/entity" || report.Problems[0].Line != 2 || report.Problems[0].Column != 9 || report.Problems[1].Rule != "queue" {
		t.Errorf("%v", report.Problems)
	}
}

// TestApplyOthers checks that the rules of the bundle that are in no file any more are reported, unless a file is unreadable.
// Rules without a bundle, such as those of the API, are not.
func TestApplyOthers(t *testing.T) {
	_, b := newBroker(t)
	s := openStore(t)
	saveRule(t, s, 0, smallRule("of-api", "orders.x"))
	dir := newFolder(t, map[string]string{
		"good.yaml": smallRule("good", "orders.x"),
		"gone.yaml": smallRule("gone", "orders.x"),
		"bad.yaml":  smallRule("bad", "orders.x") + "---\n" + smallRule("beside", "orders.x"),
	})
	apply := func() rules.Report {
		t.Helper()
		report, err := newRegistry(b, s).ApplyDir(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if report := apply(); report.Others != nil || len(report.Saved) != 4 {
		t.Fatalf("%+v", report)
	}
	writeFile(t, filepath.Join(dir, "bad.yaml"), smallRule("bad", "orders.x")+"slto: 1m\n---\n"+smallRule("beside", "orders.x"))
	if err := os.Remove(filepath.Join(dir, "gone.yaml")); err != nil {
		t.Fatal(err)
	}
	report := apply()
	if diff := cmp.Diff([]string{"gone"}, report.Others); diff != "" || report.Refused != 2 || len(report.Problems) != 1 {
		t.Errorf("%d refused; others (-want +got):\n%s", report.Refused, diff)
	}
	writeFile(t, filepath.Join(dir, "worse.yaml"), "name: [")
	if report := apply(); report.Others != nil {
		t.Errorf("others %v, although they are unknown", report.Others)
	}
}

func TestApplyNowhere(t *testing.T) {
	if _, err := new(rules.Registry).ApplyDir(t.Context(), "/does/not/exist"); err == nil {
		t.Error("a folder that is not there is no error")
	}
}
