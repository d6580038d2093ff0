package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var hostileFor = flag.Duration("hostile", 20*time.Second, "for how long TestHostileRules is hostile")

// hostileMemory is the node's memory limit in bytes; hostileGoal is the GOMEMLIMIT that docs/operations/performance.md recommends
// for it.
const (
	hostileMemory = 512 << 20
	hostileGoal   = "GOMEMLIMIT=360MiB"
)

// steadyRule is a rule of another client, whose events must be ingested during the attack.
const steadyRule = `{"name": "steady", "entity": "order", "trigger": {"event": "steady.created", "key": "event.id"}, "escalate": [{"after": "24h"}]}`

// TestHostileRules checks that a node in 512 MB survives rules, lints, previews and events designed to exhaust its
// memory and time, and ingests the events of another rule meanwhile.
func TestHostileRules(t *testing.T) {
	from := *seed
	if from == 0 {
		from = rand.Uint64()
	}
	t.Logf("seed %d, for %s", from, *hostileFor)
	n := newHostileNode(t)
	ctx, stop := context.WithTimeout(t.Context(), *hostileFor)
	defer stop()
	var all sync.WaitGroup
	for i, attack := range []func(context.Context, *hostile){n.lint, n.lint, n.preview, n.preview, n.save, n.publish, n.publish} {
		all.Go(func() {
			for h := newHostile(from, uint64(i)); ctx.Err() == nil; {
				attack(ctx, h)
			}
		})
	}
	orders := n.publishOrders(ctx)
	all.Wait()
	n.checkAlive(orders)
}

// hostileNode is a node under attack.
type hostileNode struct {
	*testing.T
	*process
	limited       bool // by a cgroup
	admin, events string
	readers       []string
	tenant        string
	client        http.Client
	answers       sync.Map // number of answers, by request and status
}

func newHostileNode(t *testing.T) *hostileNode {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	n := &hostileNode{T: t, client: http.Client{Timeout: time.Minute}}
	n.process = startProcess(t, path, "besieged", []string{hostileGoal}, func(line string) {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "panic") {
			t.Logf("%.500s", line)
		}
	}, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	select {
	case <-n.serving:
	case <-n.exited:
		t.Fatal("the node ended at its start")
	}
	n.limit()
	n.admin = n.token(map[string]any{"name": "admin", "scopes": []string{"admin"}})
	n.events = n.token(map[string]any{"name": "events", "scopes": []string{"events"}})
	n.tenant = n.token(map[string]any{"name": "tenant", "scopes": []string{"rules"}, "prefix": "acme-*", "subjects": []string{"acme.>"}})
	for i := range 3 {
		n.readers = append(n.readers, n.token(map[string]any{"name": fmt.Sprintf("reader%d", i), "scopes": []string{"read"}}))
	}
	if status, body := n.call(t.Context(), n.admin, "POST", "/api/v1/rules", []byte(steadyRule)); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	return n
}

// limit limits the memory of the node by a cgroup, if this process may create one: a node that exceeds it is killed.
// Otherwise the peak memory of the node is compared with the limit.
func (n *hostileNode) limit() {
	name := "deadman-hostile-" + strconv.Itoa(n.Process.Pid)
	for _, c := range []struct{ root, limit string }{
		{"/sys/fs/cgroup", "memory.max"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		dir := filepath.Join(c.root, name)
		if _, err := os.Stat(filepath.Join(c.root, "cgroup.procs")); err != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		n.Cleanup(func() {
			n.kill()
			_ = os.Remove(dir) // the cgroup is empty now
		})
		if os.WriteFile(filepath.Join(dir, c.limit), []byte(strconv.Itoa(hostileMemory)), 0o600) == nil &&
			os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(n.Process.Pid)), 0o600) == nil {
			n.limited = true
			n.Logf("the node is limited by the cgroup %s", dir)
			return
		}
	}
	n.Logf("no cgroup can be created; the peak memory of the node is compared instead")
}

func (n *hostileNode) token(wanted map[string]any) string {
	n.Helper()
	request, err := json.Marshal(wanted)
	if err != nil {
		n.Fatal(err)
	}
	status, body := n.call(n.Context(), n.admin, "POST", "/api/v1/tokens", request)
	var made struct{ Secret string }
	if err := json.Unmarshal(body, &made); err != nil || status != http.StatusCreated {
		n.Fatalf("%d %s %v", status, body, err)
	}
	return made.Secret
}

// call sends a request; status 0 means no response.
func (n *hostileNode) call(ctx context.Context, token, method, path string, body []byte) (status int, answer []byte) {
	r, err := http.NewRequestWithContext(ctx, method, n.at.HTTP+path, bytes.NewReader(body))
	if err != nil {
		n.Error(err)
		return 0, nil
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := n.client.Do(r)
	if err != nil {
		n.count(method, path, 0)
		return 0, nil
	}
	defer a.Body.Close()
	answer, err = io.ReadAll(a.Body)
	if err != nil {
		n.count(method, path, 0)
		return 0, nil
	}
	n.count(method, path, a.StatusCode)
	if a.StatusCode == http.StatusInternalServerError {
		n.Errorf("%s %s: %d %.300s; it was sent %.300s", method, path, a.StatusCode, answer, body)
	}
	return a.StatusCode, answer
}

func (n *hostileNode) count(method, path string, status int) {
	parts := strings.Split(path, "/")
	known, _ := n.answers.LoadOrStore(fmt.Sprintf("%s %s: %d", method, strings.Join(parts[3:min(len(parts), 4)], "/"), status), new(atomic.Int64))
	known.(*atomic.Int64).Add(1)
}

// withEarlyCancel returns a context that sometimes ends before the response.
func (h *hostile) withEarlyCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.random.IntN(4) > 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(h.random.IntN(500))*time.Millisecond)
}

func (n *hostileNode) lint(ctx context.Context, h *hostile) {
	ctx, cancel := h.withEarlyCancel(ctx)
	defer cancel()
	n.call(ctx, n.readers[h.random.IntN(len(n.readers))], "POST", "/api/v1/rules/lint", h.text())
}

func (n *hostileNode) preview(ctx context.Context, h *hostile) {
	ctx, cancel := h.withEarlyCancel(ctx)
	defer cancel()
	then := []any{}
	for range h.random.IntN(4) {
		then = append(then, map[string]any{"subject": h.subject(), "at": "2030-01-01T00:00:01Z", "data": h.value(60_000)})
	}
	body, err := json.Marshal(map[string]any{
		"rule": h.rule(), "event": map[string]any{"at": "2030-01-01T00:00:00Z", "data": h.value(200_000)}, "later_events": then,
	})
	if err != nil {
		n.Error(err)
		return
	}
	n.call(ctx, n.readers[h.random.IntN(len(n.readers))], "POST", "/api/v1/rules/preview", body)
}

// save saves one of a few rules, and resumes it if it was paused.
func (n *hostileNode) save(ctx context.Context, h *hostile) {
	rule := h.rule()
	text, err := json.Marshal(rule)
	if err != nil {
		n.Error(err)
		return
	}
	name := fmt.Sprint(rule["name"])
	n.call(ctx, n.tenant, "PUT", "/api/v1/rules/"+name, text)
	if h.random.IntN(3) == 0 {
		n.call(ctx, n.tenant, "POST", "/api/v1/rules/"+name+"/resume", nil)
	}
}

func (n *hostileNode) publish(ctx context.Context, h *hostile) {
	n.call(ctx, n.events, "POST", "/api/v1/events/"+h.subject(), h.body())
}

// publishOrders publishes events of the other rule until ctx ends, and returns the number of acknowledged events.
func (n *hostileNode) publishOrders(ctx context.Context) (orders int) {
	for every := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			return orders
		case <-every.C:
		}
		if status, _ := n.call(n.Context(), n.events, "POST", "/api/v1/events/steady.created", fmt.Appendf(nil, `{"id": "%d"}`, orders)); status == http.StatusAccepted {
			orders++
		}
	}
}

// checkAlive checks that the node runs within its memory and ingested all acknowledged events.
func (n *hostileNode) checkAlive(orders int) {
	n.answers.Range(func(what, times any) bool {
		n.Logf("%s: %d", what, times.(*atomic.Int64).Load())
		return true
	})
	select {
	case <-n.exited:
		n.Fatalf("the node ended: %s", n.ProcessState)
	default:
	}
	if orders == 0 {
		n.Error("no order was ingested")
	}
	for _, what := range []string{"PUT rules: 200", "POST rules: 200", "POST events: 202"} {
		if _, was := n.answers.Load(what); !was {
			n.Errorf("no hostile request was answered as %q: all were refused", what)
		}
	}
	late := eventually(n.T, time.Minute, "every order has a job", func() bool {
		for _, i := range []int{0, orders / 2, orders - 1} {
			if status, _ := n.call(n.Context(), n.admin, "GET", fmt.Sprintf("/api/v1/jobs/steady/%d", i), nil); status != http.StatusOK {
				return false
			}
		}
		return true
	})
	limit := n.peakMemory()
	n.Logf("%d orders, the last of which had a job %s after the attack; the node took %d MiB at the most", orders, late.Round(time.Millisecond), limit>>20)
	if limit > hostileMemory && !n.limited { // page cache in a cgroup is reclaimed
		n.Errorf("the node took %d MiB, and has %d", limit>>20, hostileMemory>>20)
	}
	n.stop()
}

// peakMemory returns the peak memory of the node in bytes, including page cache.
func (n *hostileNode) peakMemory() int64 {
	n.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Process.Pid))
	if err != nil {
		n.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	n.Fatalf("VmHWM is missing: %s", text)
	return 0
}
