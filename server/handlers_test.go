package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"deadman/alerts"
	"deadman/checks"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/longtest"
	"deadman/internal/remotehandlers"
	"deadman/server"
)

// startProgram runs a program in a folder until the test ends, and logs its output on failure.
func startProgram(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	out := &bustest.Log{}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	command.Dir, command.Stdout, command.Stderr = dir, out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // if it is gone, Wait returns the cause
		if err := command.Wait(); err != nil {
			t.Errorf("%s does not end well: %v", name, err)
		}
		if t.Failed() {
			t.Log(out.String())
		}
	})
}

// publishOrder publishes an order.
func (n *node) publishOrder(body string) {
	n.Helper()
	if got := n.callRaw(http.MethodPost, "/api/v1/events/orders.created", body); got.status >= 300 {
		n.Fatalf("%s: %d %s", body, got.status, got.body)
	}
}

// checkExampleAlerts sends two orders, and waits for the alerts of the example handlers.
func (n *node) checkExampleAlerts() {
	n.Helper()
	for id, total := range map[string]int{"1": 20, "2": 2000} {
		n.publishOrder(fmt.Sprintf(`{"id":%q,"total":%d}`, id, total))
	}
	for key, want := range map[string]string{"1": "warning: order 1 over 20.00 not shipped", "2": "critical: order 2 over 2000.00 not shipped"} {
		n.eventually("an alert of order "+key, func() bool {
			var got struct {
				Items []struct{ Severity, Text, Step string }
			}
			n.get("/api/v1/alerts?key="+key, &got)
			return len(got.Items) == 1 && strings.HasPrefix(got.Items[0].Severity+": "+got.Items[0].Text, want) && got.Items[0].Step == "hour-0"
		})
	}
	var jobs list
	if n.get("/api/v1/jobs", &jobs); len(jobs.Items) != 2 || fmt.Sprint(jobs.Items[0].Step) != "1" {
		n.Errorf("the jobs are %+v", jobs.Items)
	}
}

// A program that imports deadman, with its own handler: from an event to the alert.
func TestProgramWithHandler(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	built := filepath.Join(dir, "node")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", built, "../examples/handler-go").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.CopyFS(filepath.Join(dir, "rules"), os.DirFS("../examples/handler-go/rules")); err != nil {
		t.Fatal(err)
	}
	startProgram(t, dir, built)
	n := &node{T: t, log: &bustest.Log{}}
	n.eventually("the program serves", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "deadman-data", "endpoints.json"))
		if err != nil {
			return false
		}
		if err := json.Unmarshal(text, &n.Endpoints); err != nil {
			t.Fatal(err)
		}
		return true
	})
	n.checkExampleAlerts()
}

// A handler in JavaScript, with the npm client.
func TestHandlerInJavaScript(t *testing.T) {
	longtest.Only(t, "it needs Node.js and npm")
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the handler in JavaScript needs node 20 or newer and npm, and there is no %s; internal/tools/needs node installs them", program)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../examples/handler-js")); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	n := startReadyNode(t, server.Config{Rules: filepath.Join(dir, "rules")})
	t.Setenv("DEADMAN_DATA_DIR", n.dir)
	startProgram(t, dir, "node", "handler.js", n.NATS)
	n.checkExampleAlerts()
}

func TestExampleLockFileHasNoRegistry(t *testing.T) {
	text, err := os.ReadFile("../examples/handler-js/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(`"resolved"`)) || bytes.Contains(text, []byte("http")) || !bytes.Contains(text, []byte(`"integrity"`)) {
		t.Error("the lock file names the registry of its packages; remove the lines with resolved")
	}
}

// The answer of a service is subject to the guards, like that of any handler.
func TestServicesAreGuarded(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{})
	n.saveRule(http.StatusCreated, "", `
name: shipment-late
entity: order
trigger: {event: orders.created, key: event.id}
handler: shipping
at_most_once: true
slot: 1s
guards: {max_checks: 2, attempts: 1, horizon: 1d}
`)
	conn := n.natsConn(bus.UserHandlers)
	service, err := micro.AddService(conn, micro.Config{Name: "shipping", Version: "1.0.0", Endpoint: &micro.EndpointConfig{
		Subject: remotehandlers.Subject("shipping"), Handler: micro.HandlerFunc(answerByKey),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Stop() }) // the node and its connection may have ended first
	for key, want := range map[string]string{
		"past": "guard_past", "far": "guard_horizon", "often": "guard_max_checks", "done": "shipped", "cleared": "cleared",
	} {
		n.publishOrder(fmt.Sprintf(`{"id":%q}`, key))
		n.eventually(key+" ends as "+want, func() bool {
			var ended list
			n.get("/api/v1/history?key="+key, &ended)
			return len(ended.Items) == 1 && ended.Items[0].Outcome == want
		})
	}
	n.publishOrder(`{"id":"broken"}`)
	n.eventually("the broken handler is reported", func() bool {
		var reported struct {
			Items []struct{ Status, Text string }
		}
		n.get("/api/v1/alerts?key=broken", &reported)
		return len(reported.Items) > 0 && reported.Items[0].Status == "undetermined" && strings.Contains(reported.Items[0].Text, `unknown field "nxt"`)
	})
	if got := n.callRaw(http.MethodPost, "/api/v1/jobs/shipment-late/broken/check", ""); !bytes.Contains(got.body, []byte("at_most_once")) {
		t.Errorf("a manual check: %d %s", got.status, got.body)
	}
}

// answerByKey answers by the key of a check.
func answerByKey(r micro.Request) {
	var check remotehandlers.Request
	if err := json.Unmarshal(r.Data(), &check); err != nil {
		_ = r.Error("400", err.Error(), nil)
		return
	}
	after := func(d time.Duration) string { return `{"next": "` + check.Slot.Add(d).Format(time.RFC3339) + `"}` }
	_ = r.Respond([]byte(map[string]string{
		"past": after(-time.Hour), "far": after(48 * time.Hour), "often": after(time.Second),
		"done": `{"outcome": "shipped"}`, "cleared": `{"next": null}`, "broken": `{"nxt": null}`,
	}[check.Key]))
}

// handlerList is the part of the handler list that these tests check.
type handlerList struct {
	Items          []handler
	DiscoveryError string `json:"discovery_error"`
}

type handler struct {
	Name, Provider, State, Error, Service string
	Rules, Versions                       []string
	Instances                             int
}

// handlers reads the list of handlers, by name.
func (n *node) handlers() (discoveryError string, by map[string]handler) {
	n.Helper()
	var roll handlerList
	n.get("/api/v1/handlers", &roll)
	by = make(map[string]handler)
	for _, h := range roll.Items {
		by[h.Name] = h
	}
	return roll.DiscoveryError, by
}

// handlerRule returns a rule with a handler.
func handlerRule(name, handler string) string {
	return "name: " + name + "\nentity: order\nslot: 1s\ntrigger: {event: orders.created, key: event.id}\nhandler: " + handler + "\n"
}

// startService runs a service on the node's broker that answers by key.
func (n *node) startService(name string) {
	n.Helper()
	conn := n.natsConn(bus.UserHandlers)
	service, err := micro.AddService(conn, micro.Config{Name: name, Version: "1.2.3", Endpoint: &micro.EndpointConfig{
		Subject: remotehandlers.Subject(name), Handler: micro.HandlerFunc(answerByKey),
	}})
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = service.Stop() }) // the node and its connection may have ended first
}

func TestHandlerProviders(t *testing.T) {
	t.Parallel()
	var own checks.Handlers
	for _, name := range []string{"counting", "idle"} {
		err := own.Register(name, checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) { return checks.Answer{}, nil }))
		if err != nil {
			t.Fatal(err)
		}
	}
	n := startReadyNode(t, server.Config{Handlers: &own, Rules: ruleFolder(t, map[string]string{
		"a.yaml": handlerRule("late", "shipping"), "b.yaml": handlerRule("later", "shipping"), "c.yaml": handlerRule("counted", "counting"), "d.yaml": handlerRule("lost", "shiping"),
		"e.yaml": handlerRule("simple", "plain"),
	})})
	n.startService("shipping")
	n.startService("unwanted")
	conn := n.natsConn(bus.UserHandlers)
	if _, err := conn.Subscribe(remotehandlers.Subject("plain"), func(m *nats.Msg) { _ = m.Respond([]byte(`{"next": null}`)) }); err != nil {
		t.Fatal(err)
	}
	n.publishOrder(`{"id":"cleared"}`)
	n.eventually("they are distinct", func() bool {
		_, by := n.handlers()
		return by["shipping"].State == "up" && by["shiping"].State == "failing" && by["plain"].State == "up"
	})
	discoveryError, by := n.handlers()
	by["shiping"] = func(h handler) handler { h.Error = h.Error[:min(len(h.Error), 42)]; return h }(by["shiping"])
	want := map[string]handler{
		"shipping": {Name: "shipping", Provider: "service", State: "up", Service: "shipping", Rules: []string{"late", "later"}, Versions: []string{"1.2.3"}, Instances: 1},
		"unwanted": {Name: "unwanted", Provider: "service", State: "new", Service: "unwanted", Rules: []string{}, Versions: []string{"1.2.3"}, Instances: 1},
		"counting": {Name: "counting", Provider: "program", Rules: []string{"counted"}, Versions: []string{}},
		"idle":     {Name: "idle", Provider: "program", Rules: []string{}, Versions: []string{}},
		"shiping":  {Name: "shiping", Provider: "none", State: "failing", Error: "handler/shiping is unavailable: no service", Rules: []string{"lost"}, Versions: []string{}},
		"plain":    {Name: "plain", Provider: "service", State: "up", Rules: []string{"simple"}, Versions: []string{}}, // it answers checks but not discovery
	}
	if diff := cmp.Diff(want, by); diff != "" || discoveryError != "" {
		t.Error(discoveryError, diff)
	}
}

// Without permission for discovery, the list does not claim that a handler is missing.
func TestUnknownProvider(t *testing.T) {
	n := startReadyNode(t, server.Config{NATSURL: startRestrictedNATS(t, "$SRV.INFO"), Rules: ruleFolder(t, map[string]string{"a.yaml": handlerRule("late", "shipping")})})
	discoveryError, by := n.handlers()
	if !strings.Contains(discoveryError, "publish on $SRV.INFO; grant it to the NATS user") || by["shipping"].Provider != "unknown" {
		t.Errorf("%s; %+v", discoveryError, by)
	}
	if discoveryError, by := startReadyNode(t, server.Config{
		NATSURL: startRestrictedNATS(t), Rules: ruleFolder(t, map[string]string{"a.yaml": handlerRule("late", "shipping")}),
	}).handlers(); discoveryError != "" || by["shipping"].Provider != "none" {
		t.Errorf("%s; %+v", discoveryError, by)
	}
}

// trialResult is the result of testing a handler.
type trialResult struct {
	Handler, Rule, Key, Error string
	Answer                    *struct {
		Next, Outcome string
		Step          int
		Alerts        []struct{ Status, Severity string }
	}
}

func (n *node) testHandler(name, body string) (got trialResult) {
	n.Helper()
	if status := n.call(http.MethodPost, "/api/v1/handlers/"+name+"/test", body, &got); status != http.StatusOK {
		n.Errorf("%s: %d", name, status)
	}
	return got
}

func TestHandlerTrial(t *testing.T) {
	t.Parallel()
	var own checks.Handlers
	hang := make(chan struct{})
	defer close(hang)
	var requested atomic.Pointer[checks.Check]
	for name, answer := range map[string]func(checks.Check) (checks.Answer, error){
		"own": func(c checks.Check) (checks.Answer, error) {
			requested.Store(&c)
			return checks.Answer{Next: c.Slot.Add(time.Hour), Step: 1, Alerts: []alerts.Draft{{Text: "late"}}}, nil
		},
		"panics": func(checks.Check) (checks.Answer, error) { panic("oh") },
		"hangs":  func(checks.Check) (checks.Answer, error) { <-hang; return checks.Answer{}, nil },
		"acts": func(checks.Check) (checks.Answer, error) {
			t.Error("a handler with effects is tried")
			return checks.Answer{}, nil
		},
	} {
		var h checks.Handler = checks.HandlerFunc(func(_ context.Context, c checks.Check) (checks.Answer, error) { return answer(c) })
		if name == "acts" {
			h = checks.WithAtMostOnce(h)
		}
		if err := own.Register(name, h); err != nil {
			t.Fatal(err)
		}
	}
	n := startReadyNode(t, server.Config{Handlers: &own, Rules: ruleFolder(t, map[string]string{
		"a.yaml": handlerRule("late", "shipping") + "guards: {horizon: 1d}\n", "b.yaml": handlerRule("slow", "hangs") + "guards: {timeout: 100ms, attempts: 1}\n",
		"c.yaml": handlerRule("careful", "careful") + "at_most_once: true\n", "d.yaml": handlerRule("before", "careful"),
	})})
	n.startService("shipping")

	got := n.testHandler("own", `{"key": "7", "event": {"id": "7"}}`)
	var audited struct {
		Items []struct{ Actor, Object, Detail string }
	}
	if n.get("/api/v1/audit?action=handler.test", &audited); len(audited.Items) != 1 || audited.Items[0].Actor == "" || audited.Items[0].Object != "handler/own" || audited.Items[0].Detail != "answered" {
		t.Errorf("the audit log has %+v", audited.Items)
	}
	c := requested.Load()
	if got.Error != "" || got.Answer == nil || got.Rule != "" || got.Key != "7" || got.Answer.Step != 1 ||
		len(got.Answer.Alerts) != 1 || got.Answer.Alerts[0].Status != "firing" || got.Answer.Alerts[0].Severity != "warning" {
		t.Errorf("%+v", got)
	}
	if !c.Manual || c.Key != "7" || string(c.Event) != `{"id": "7"}` || string(c.State) != `{"id": "7"}` || c.Slot.After(c.At) || c.Since.IsZero() {
		t.Errorf("%+v", *c)
	}
	for name, wantText := range map[string]string{
		"panics": "the handler panicked: oh", "hangs": "ignored its timeout", "acts": "has side effects (at_most_once)", "careful": "has side effects (at_most_once)",
		"absent": "no service answers on deadman.handlers.absent",
	} {
		if got := n.testHandler(name, `{}`); got.Answer != nil || !strings.Contains(got.Error, wantText) || got.Key != "test" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for key, wantText := range map[string]string{
		"broken": `invalid answer on deadman.handlers.shipping: unknown field "nxt"`, "past": "which is not after the checked slot", "far": "guards.horizon", "done": "",
	} {
		got := n.testHandler("shipping", fmt.Sprintf(`{"key": %q}`, key))
		if got.Rule != "late" || (got.Error == "") != (wantText == "") || !strings.Contains(got.Error, wantText) || (got.Answer == nil) != (key == "broken") {
			t.Errorf("%s: %+v", key, got)
		}
		if key == "done" && got.Answer.Outcome != "shipped" {
			t.Errorf("%+v", got.Answer)
		}
	}
	for path, body := range map[string]string{"a.b": `{}`, "shipping": `{"key": "a\u0000"}`} {
		if refused := n.callRaw(http.MethodPost, "/api/v1/handlers/"+path+"/test", body); refused.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", path, refused.status, refused.body)
		}
	}
	// Abandoned calls keep their places, of which four exist.
	for range 3 {
		n.testHandler("hangs", `{}`)
	}
	if got := n.testHandler("own", `{}`); !strings.Contains(got.Error, "have not returned") {
		t.Errorf("%+v", got)
	}
	var jobs, ended, raised list
	n.get("/api/v1/jobs", &jobs)
	n.get("/api/v1/history", &ended)
	n.get("/api/v1/alerts", &raised)
	if len(jobs.Items)+len(ended.Items)+len(raised.Items) > 0 {
		t.Errorf("something came of it: %+v %+v %+v", jobs, ended, raised)
	}
}
