package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// bulky is a rule whose alerts contain large events.
const bulky = `{"name": "bulky", "entity": "bulk", "trigger": {"event": "bulky.created", "key": "event.id"}, "escalate": [{"after": "1s"}, {"after": "24h"}]}`

// bulkyAlerts alerts of 240 KB each would be 96 MB on one page.
const (
	bulkyAlerts = 400
	bulkyBytes  = 240_000
)

// leastAnswered is the number of lists that have to be answered: a node that refuses all of them needs no memory.
const leastAnswered = 8

// TestMemoryOfLists makes a node in 512 MB answer many lists at once, streams with a backlog, and live pages with slow
// readers, while all alerts have large events.
func TestMemoryOfLists(t *testing.T) {
	n := newHostileNode(t)
	if status, body := n.call(t.Context(), n.admin, "POST", "/api/v1/rules", []byte(bulky)); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	filler := strings.Repeat("x", bulkyBytes)
	for i := range bulkyAlerts {
		if status, body := n.call(t.Context(), n.events, "POST", "/api/v1/events/bulky.created", fmt.Appendf(nil, `{"id":"%d","filler":"%s"}`, i, filler)); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, body)
		}
	}
	eventually(t, 2*time.Minute, "every alert is decided", func() bool {
		return len(n.alerts(t.Context(), n.admin)) == bulkyAlerts
	})
	n.resetPeakMemory()
	for _, path := range []string{"/api/v1/alerts?rule=bulky&limit=500", "/rules/bulky", "/api/v1/jobs?limit=500"} {
		begun := time.Now()
		n.call(t.Context(), n.readers[0], "GET", path, nil)
		t.Logf("%s takes %s alone", path, time.Since(begun))
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 32 {
		n.readAllPages(ctx, "/api/v1/alerts?backlog=500", "text/event-stream")
	}
	for range 16 {
		n.readAllPages(ctx, "/alerts?live=1", "text/html")
	}
	var all sync.WaitGroup
	var answered atomic.Int64
	for range 40 {
		all.Go(func() {
			for range 5 { // on a busy machine, the time of a request may be over
				items := n.alerts(ctx, n.readers[0])
				if items == nil && answered.Load() < leastAnswered {
					continue
				}
				if items != nil && len(items) != bulkyAlerts {
					t.Errorf("a page of %d alerts, want %d", len(items), bulkyAlerts)
				}
				if items != nil {
					answered.Add(1)
				}
				return
			}
		})
		all.Go(func() { n.call(ctx, n.readers[1], "GET", "/rules/bulky", nil) })
		all.Go(func() { n.call(ctx, n.readers[2], "GET", "/api/v1/jobs?limit=500", nil) })
	}
	all.Wait()
	if answered.Load() < leastAnswered {
		t.Errorf("%d of 40 lists were answered", answered.Load())
	}
	n.checkBodies()
	limit := n.peakMemory()
	t.Logf("%d of 40 lists were answered; the node took %d MiB at the most meanwhile", answered.Load(), limit>>20)
	select {
	case <-n.exited:
		t.Fatalf("the node ended: %s", n.ProcessState)
	default:
	}
	if limit > hostileMemory && !n.limited {
		t.Errorf("the node took %d MiB, and has %d", limit>>20, hostileMemory>>20)
	}
	stop()
	n.stop()
}

// listedBytes is the size of an event that lists include, so a page of 500 alerts has about 8 MB.
const listedBytes = 15_000

// TestMemoryOfUnreadAnswers makes a node in 512 MB produce lists that no client reads, for many tokens.
func TestMemoryOfUnreadAnswers(t *testing.T) {
	n := newHostileNode(t)
	if status, body := n.call(t.Context(), n.admin, "POST", "/api/v1/rules", []byte(bulky)); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	filler := strings.Repeat("x", listedBytes)
	var all sync.WaitGroup
	for at := range 10 {
		all.Go(func() {
			for i := range 50 {
				if status, body := n.call(t.Context(), n.events, "POST", "/api/v1/events/bulky.created", fmt.Appendf(nil, `{"id":"%d-%d","filler":"%s"}`, at, i, filler)); status != http.StatusAccepted {
					t.Errorf("%d %s", status, body)
				}
			}
		})
	}
	all.Wait()
	const page = "/api/v1/alerts?rule=bulky&limit=500"
	size := 0
	eventually(t, 2*time.Minute, "every alert is decided", func() bool {
		_, body := n.call(t.Context(), n.admin, "GET", page, nil)
		size = len(body)
		return strings.Count(string(body), `"filler"`) == 500
	})
	n.resetPeakMemory()
	var leave []func() error
	for i := range 12 {
		token := n.token(map[string]any{"name": fmt.Sprintf("slow-%d", i), "scopes": []string{"read"}})
		for range 12 {
			leave = append(leave, n.requestWithoutReading(page, token))
		}
	}
	for range 20 {
		if status, _ := n.call(t.Context(), n.readers[0], "GET", page, nil); status == http.StatusServiceUnavailable {
			break // until all slots are taken
		}
	}
	limit := n.peakMemory()
	t.Logf("a page has %d bytes; the node took %d MiB at the most", size, limit>>20)
	select {
	case <-n.exited:
		t.Fatalf("the node ended: %s", n.ProcessState)
	default:
	}
	if limit > hostileMemory && !n.limited {
		t.Errorf("the node took %d MiB, and has %d", limit>>20, hostileMemory>>20)
	}
	for _, leave := range leave { // a stop waits for unread responses and is not clean
		_ = leave()
	}
	n.stop()
}

// requestWithoutReading requests a page without reading the response. It returns the function that closes the connection; the end of
// the test closes it, too.
func (n *hostileNode) requestWithoutReading(path, token string) (leave func() error) {
	n.Helper()
	host := strings.TrimPrefix(n.at.HTTP, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = c.Close() })
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		n.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", path, host, token); err != nil {
		n.Fatal(err)
	}
	return c.Close
}

// listedAlert has the fields of an alert that the test reads.
type listedAlert struct {
	ID            string          `json:"id"`
	Event         json.RawMessage `json:"event"`
	BodiesOmitted bool            `json:"bodies_omitted"`
}

// alerts returns the alerts of the bulky rule on one page; nil if the node was busy.
func (n *hostileNode) alerts(ctx context.Context, token string) []listedAlert {
	status, body := n.call(ctx, token, "GET", "/api/v1/alerts?rule=bulky&limit=500", nil)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		return nil
	}
	var page struct{ Items []listedAlert }
	if err := json.Unmarshal(body, &page); err != nil || status != http.StatusOK {
		n.Errorf("%d %.300s %v", status, body, err)
		return nil
	}
	for _, a := range page.Items {
		if a.Event != nil || !a.BodiesOmitted {
			n.Errorf("an alert is listed with an event of %d bytes, left out: %t", len(a.Event), a.BodiesOmitted)
			break
		}
	}
	return page.Items
}

// checkBodies checks that a single alert includes its event.
func (n *hostileNode) checkBodies() {
	page := n.alerts(n.Context(), n.admin)
	if len(page) == 0 {
		n.Fatal("no alerts are listed")
	}
	status, body := n.call(n.Context(), n.admin, "GET", "/api/v1/alerts/"+page[0].ID, nil)
	var one listedAlert
	if err := json.Unmarshal(body, &one); err != nil || status != http.StatusOK || len(one.Event) < bulkyBytes || one.BodiesOmitted {
		n.Errorf("an alert by itself: %d, %d bytes, %v", status, len(one.Event), err)
	}
}

// resetPeakMemory resets peakMemory: deciding all those alerts used memory, too.
func (n *hostileNode) resetPeakMemory() {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", n.Process.Pid), []byte("5"), 0o600); err != nil {
		n.Fatal(err)
	}
}

// readAllPages requests a stream and reads a few bytes per second.
func (n *hostileNode) readAllPages(ctx context.Context, path, accept string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.at.HTTP+path, nil)
	if err != nil {
		n.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Authorization", "Bearer "+n.readers[1])
	transport := &http.Transport{ReadBufferSize: 1 << 10}
	a, err := transport.RoundTrip(r)
	if err != nil {
		n.Fatal(err)
	}
	if a.StatusCode != http.StatusOK {
		n.Fatalf("%s: %d", path, a.StatusCode)
	}
	n.Cleanup(func() {
		_ = a.Body.Close()
		transport.CloseIdleConnections()
	})
	go func() {
		for {
			if _, err := io.CopyN(io.Discard, a.Body, 256); err != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}()
}
