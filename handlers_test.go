package deadman_test

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
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"deadman"
	"deadman/handlers"
)

// program runs a program in a folder until the test ends, and says what it said if that fails.
func program(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	out := &record{}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	command.Dir, command.Stdout, command.Stderr = dir, out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // where it is gone, Wait says why
		if err := command.Wait(); err != nil {
			t.Errorf("%s does not end well: %v", name, err)
		}
		if t.Failed() {
			t.Log(out.String())
		}
	})
}

// sends publishes an order.
func (n *node) sends(body string) {
	n.Helper()
	if got := n.call(http.MethodPost, "/api/v1/events/orders.created", body); got.status >= 300 {
		n.Fatalf("%s: %d %s", body, got.status, got.body)
	}
}

// tells sends two orders, and waits for what the handlers of the examples say of them.
func (n *node) tells() {
	n.Helper()
	for id, total := range map[string]int{"1": 20, "2": 2000} {
		n.sends(fmt.Sprintf(`{"id":%q,"total":%d}`, id, total))
	}
	for key, want := range map[string]string{"1": "warning: order 1 over 20.00 waits", "2": "critical: order 2 over 2000.00 waits"} {
		n.eventually("order "+key+" is told", func() bool {
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

// A program that imports deadman, with a handler of its own: an event in, the alert out.
func TestAProgramWithAHandler(t *testing.T) {
	dir := t.TempDir()
	built := filepath.Join(dir, "node")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", built, "./examples/handler-go").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.CopyFS(filepath.Join(dir, "rules"), os.DirFS("examples/handler-go/rules")); err != nil {
		t.Fatal(err)
	}
	program(t, dir, built)
	n := &node{T: t, log: &record{}}
	n.eventually("the program serves", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "deadman-data", "endpoints.json"))
		return err == nil && json.Unmarshal(text, &n.Endpoints) == nil && n.HTTP != ""
	})
	n.tells()
}

// A handler in JavaScript, with the client that npm has.
func TestAHandlerInJavaScript(t *testing.T) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the handler in JavaScript needs node 20 or newer and npm, and there is no %s; script/needs node installs them", program)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("examples/handler-js")); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	n := serve(t, deadman.Config{Rules: filepath.Join(dir, "rules")})
	program(t, dir, "node", "handler.js", n.NATS)
	n.tells()
}

func TestTheExamplesLockNamesNoRegistry(t *testing.T) {
	text, err := os.ReadFile("examples/handler-js/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(`"resolved"`)) || bytes.Contains(text, []byte("http")) || !bytes.Contains(text, []byte(`"integrity"`)) {
		t.Error("the lock file says where its packages come from; take the lines with resolved out")
	}
}

// What a service answers is put under the guards like the answer of any other handler.
func TestServicesAreGuarded(t *testing.T) {
	n := serve(t, deadman.Config{})
	n.put(http.StatusCreated, "", `
name: shipment-late
entity: order
trigger: {event: orders.created, key: event.id}
handler: shipping
at_most_once: true
slot: 1s
guards: {max_checks: 2, attempts: 1, horizon: 1d}
`)
	conn, err := nats.Connect(n.NATS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	service, err := micro.AddService(conn, micro.Config{Name: "shipping", Version: "1.0.0", Endpoint: &micro.EndpointConfig{
		Subject: handlers.Subject("shipping"), Handler: micro.HandlerFunc(answerByKey),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Stop() }) // the node may have gone first, and the connection with it
	for key, want := range map[string]string{
		"past": "guard_past", "far": "guard_horizon", "often": "guard_max_checks", "done": "shipped", "cleared": "cleared",
	} {
		n.sends(fmt.Sprintf(`{"id":%q}`, key))
		n.eventually(key+" ends as "+want, func() bool {
			var ended list
			n.get("/api/v1/history?key="+key, &ended)
			return len(ended.Items) == 1 && ended.Items[0].Outcome == want
		})
	}
	n.sends(`{"id":"broken"}`)
	n.eventually("the broken one is told", func() bool {
		var told struct {
			Items []struct{ Status, Text string }
		}
		n.get("/api/v1/alerts?key=broken", &told)
		return len(told.Items) > 0 && told.Items[0].Status == "undetermined" && strings.Contains(told.Items[0].Text, `unknown field "nxt"`)
	})
	if got := n.call(http.MethodPost, "/api/v1/jobs/shipment-late/broken/check", ""); !bytes.Contains(got.body, []byte("at_most_once")) {
		t.Errorf("a look by hand: %d %s", got.status, got.body)
	}
}

// answerByKey answers as the key of a check says.
func answerByKey(r micro.Request) {
	var check handlers.Request
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
