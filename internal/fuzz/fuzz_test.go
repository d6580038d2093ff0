// Package fuzz_test sends a real node random requests derived from its OpenAPI description, its pages, hooks and pings.
package fuzz_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	requests = flag.Int("requests", 1500, "how many requests are sent")
	seed     = flag.Uint64("seed", 1, "what the requests are made of; the same gives the same")
	clients  = flag.Int("clients", 4, "how many clients send them; with one their order is the same, too")
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

const (
	// requestTimeout is the timeout of a request, even on a busy machine.
	requestTimeout = 2 * time.Minute
	// mostFaults is the number of faults that ends the run.
	mostFaults = 10
	// maxAnswer is the maximum number of bytes read of a response.
	maxAnswer = 16 << 20
)

// TestAnyRequestIsAnswered checks that a node answers every request without an error of its own. It must neither panic
// nor cut connections, and its memory must not grow. make test/fuzz sends REQUESTS requests from SEED.
func TestAnyRequestIsAnswered(t *testing.T) {
	n := newTarget(t)
	r := &run{t: t, target: n, began: time.Now()}
	r.sendNumber(*requests / 3) // fills caches and pools
	before := settledMemory(t)
	r.sendNumber(*requests - *requests/3)
	after := settledMemory(t)

	t.Logf("seed %d: %d requests in %s, by status: %s; resident memory %d MiB, then %d MiB",
		*seed, r.sent.Load(), time.Since(r.began).Round(time.Second), r.statuses(), before>>20, after>>20)
	if grown, limit := int64(after)-int64(before), int64(max(before/2, memorySlack)); grown > limit {
		t.Errorf("resident memory grew by %d MiB, from %d MiB; the most is %d MiB", grown>>20, before>>20, limit>>20)
	}
	for line := range strings.SplitSeq(n.log.String(), "\n") {
		if strings.Contains(line, "panic") || strings.Contains(line, "broke off") {
			t.Errorf("the node logged %.2000s", line)
		}
	}
	if r.byStatus[http.StatusOK] == 0 || r.byStatus[http.StatusUnprocessableEntity] == 0 || r.byStatus[http.StatusAccepted] == 0 {
		t.Errorf("the requests have too few different results: %s", r.statuses())
	}
}

// run has the requests and results of a run.
type run struct {
	t *testing.T
	*target
	began  time.Time
	sent   atomic.Int64
	faulty atomic.Int64
	parts  uint64 // number of parts sent

	mu       sync.Mutex
	byStatus map[int]int
}

// sendNumber sends one part of the run from all clients.
func (r *run) sendNumber(number int) {
	r.parts++
	var all sync.WaitGroup
	for client := range *clients {
		all.Go(func() {
			m := newMaker(*seed, r.parts<<32|uint64(client), r.target)
			for range number / *clients {
				if r.faulty.Load() >= mostFaults || r.t.Context().Err() != nil {
					return
				}
				r.check(m.request())
			}
		})
	}
	all.Wait()
}

// check sends one request and reports a faulty response.
func (r *run) check(q request) {
	status, answer, err := r.send(q)
	r.sent.Add(1)
	r.mu.Lock()
	if r.byStatus == nil {
		r.byStatus = make(map[int]int)
	}
	r.byStatus[status]++
	r.mu.Unlock()
	switch {
	case err != nil && q.isUnreadable():
	case err != nil:
		r.fault(q, fmt.Sprintf("no response: %v", err))
	case status == http.StatusServiceUnavailable && (strings.Contains(answer, `"detail"`) || q.stream || !q.api):
		// The status is documented for every operation and for live pages.
	case status >= http.StatusInternalServerError:
		r.fault(q, fmt.Sprintf("response %d: %.500s", status, answer))
	}
}

func (r *run) fault(q request, what string) {
	r.faulty.Add(1)
	r.t.Errorf("%s\n%s", what, q)
}

// send sends a request and reads the response; of a stream, its beginning.
func (r *run) send(q request) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), requestTimeout)
	defer cancel()
	a, err := r.client.Do(q.http(r.HTTP).WithContext(ctx))
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = a.Body.Close() }()
	if strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		_, err := a.Body.Read(make([]byte, 1))
		if errors.Is(err, io.EOF) { // the body ended: a page that cannot be shown
			err = nil
		}
		return a.StatusCode, "", err
	}
	text, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer))
	return a.StatusCode, string(text), err
}

// statuses returns the number of responses by status.
func (r *run) statuses() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for status, number := range r.byStatus {
		all = append(all, fmt.Sprintf("%d: %d", status, number))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// memorySlack is the allowed growth of the process's memory: for rules, jobs and alerts created by requests, and for
// memory retained by the runtime.
const memorySlack = 192 << 20

// settledMemory returns the resident memory of the process in bytes, after returning unused memory to the system.
func settledMemory(t *testing.T) uint64 {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0 // not supported on other systems
	}
	return residentMemory(t)
}
