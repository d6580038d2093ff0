package faults_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/faults"
	"deadman/internal/faults/histories"
)

var historyFolder = flag.String("histories", "", "folder for the histories of the runs that record one; empty: none")

// drawHistory records the operations of clients as a history while nodes and the broker are killed, or links break.
func drawHistory(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{killPlans(random, 1+random.IntN(2), failpointsOf(random))}
	s.addNode(random, 2)
	s.stage = recordHistory
	s.upset = []func(*testbed, *rand.Rand){killBroker, breakLink("link", "cut", "half-open", "torn")}[random.IntN(2)]
}

// recorder records the operations of the clients of a run (decision 117). A list has the alerts of a job, and its elements
// are their steps. An event appends the alerts that the rules require, an operation each, and a read of the stream of alerts
// reads all lists.
type recorder struct {
	*testbed
	begun time.Time

	mu        sync.Mutex
	history   histories.History
	processes int              // used so far; process 0 reads
	lists     map[string]*list // of the events that were sent
}

// list is a list with the appends of its event, in their order.
type list struct {
	name      string
	elements  []string
	processes []int // of the operations invoked so far
}

// recordHistory replaces the events of a run by those of clients that publish each event once, and checks the history.
func recordHistory(a *testbed, _ *rand.Rand) {
	r := &recorder{testbed: a, processes: 1, lists: map[string]*list{}}
	a.play = r.play
	model := a.model
	a.model = func(ctx context.Context) error { return errors.Join(model(ctx), r.check(ctx)) }
	a.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		types := map[histories.Type]int{}
		for _, e := range r.history {
			types[e.Type]++
		}
		a.Logf("the history has %v", types)
		if *historyFolder != "" {
			writeHistory(a.T, r.history)
		}
	})
}

// writeHistory writes a history as transactions and as a set.
func writeHistory(t *testing.T, h histories.History) {
	t.Helper()
	name := filepath.Join(*historyFolder, strings.ReplaceAll(t.Name(), "/", "-"))
	var transactions, set strings.Builder
	if err := errors.Join(histories.WriteEDN(&transactions, h), histories.WriteSetEDN(&set, h),
		os.WriteFile(name+".edn", []byte(transactions.String()), 0o600), os.WriteFile(name+"-set.edn", []byte(set.String()), 0o600)); err != nil {
		t.Error(err)
	}
}

// play publishes the events of some clients, and reads the alerts meanwhile.
func (r *recorder) play() {
	r.Helper()
	r.wait()
	r.begun = time.Now()
	over := make(chan struct{})
	var clients, reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(200 * time.Millisecond):
				if err := r.read(r.Context()); err != nil {
					r.record("the alerts are not read: %v", err) // the broker may be dead
				}
			}
		}
	})
	for client := range 3 {
		clients.Go(func() {
			pause(time.Duration(client) * 200 * time.Millisecond)
			for i := range 20 {
				r.order(20*client+i, i%5)
				pause(50 * time.Millisecond)
			}
		})
	}
	clients.Wait()
	pause(2 * time.Second) // until the first alerts
	close(over)
	reader.Wait()
}

// The orders: of five, one is refused by the broker, one may be sent or not, and one is shipped soon.
const (
	refused = iota
	rushed
	shipped
)

// order publishes the events of an order, each once. The appends of an event that the broker refuses fail, and so do the
// alerts of an order that was shipped in time. An event without an answer of the broker may have been stored.
func (r *recorder) order(number, kind int) {
	key := orderKey(number)
	placed, unshipped := &list{name: faults.Placed + "/" + key, elements: []string{"placed"}}, &list{name: faults.Unshipped + "/" + key, elements: []string{"primary", "escalated"}}
	if kind == shipped {
		unshipped.elements = append(unshipped.elements, "resolved")
	}
	r.begin(placed, unshipped)
	sent := time.Now()
	timeout, options := 2*time.Second, []jetstream.PublishOpt{}
	switch kind {
	case refused:
		options = append(options, jetstream.WithExpectLastSequence(1<<40))
	case rushed:
		timeout = 200 * time.Microsecond
	}
	outcome, err := r.publishOnce("orders.created", key, timeout, options...)
	r.complete(placed, outcome, err)
	if kind == shipped {
		created := outcome
		pause(400 * time.Millisecond) // so the job exists
		outcome, err = r.publishOnce("orders.shipped", key, 2*time.Second)
		switch {
		case created == histories.OK && outcome == histories.OK && time.Since(sent) < time.Second: // before the first slot
			outcome = histories.Fail
		default:
			outcome = histories.Info
		}
	}
	r.complete(unshipped, outcome, err)
}

// publishOnce publishes an event without a second attempt.
func (r *recorder) publishOnce(subject, key string, timeout time.Duration, options ...jetstream.PublishOpt) (histories.Type, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	id := subject + "/" + key
	_, err := r.jetStream().Publish(ctx, subject, fmt.Appendf(nil, `{"id": %q}`, key), append(options, jetstream.WithMsgID(id))...)
	var refusal *jetstream.APIError
	switch {
	case err == nil:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.acked = append(r.acked, id)
		return histories.OK, nil
	case errors.As(err, &refusal):
		return histories.Fail, err
	}
	return histories.Info, err
}

// begin invokes the first append of each list.
func (r *recorder) begin(lists ...*list) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range lists {
		r.lists[l.name] = l
		r.invoke(l, r.process())
	}
}

// complete completes the appends of a list, and invokes those that the reader has not. Each follows the one before in the
// same process, unless the outcome is unknown.
func (r *recorder) complete(l *list, outcome histories.Type, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	process := l.processes[0]
	for i := range l.elements {
		if i == len(l.processes) {
			if outcome == histories.Info {
				process = r.process()
			}
			r.invoke(l, process)
		}
		r.add(l.processes[i], outcome, err, histories.Append(l.name, l.elements[i]))
	}
}

// invoke invokes the next append of a list.
func (r *recorder) invoke(l *list, process int) {
	r.add(process, histories.Invoke, nil, histories.Append(l.name, l.elements[len(l.processes)]))
	l.processes = append(l.processes, process)
}

// process returns a new process.
func (r *recorder) process() int {
	r.processes++
	return r.processes - 1
}

func (r *recorder) add(process int, part histories.Type, err error, value ...histories.Access) {
	e := histories.Entry{Index: len(r.history), Process: process, Type: part, Time: time.Since(r.begun), Value: value}
	if err != nil {
		e.Error = err.Error()
	}
	r.history = append(r.history, e)
}

// read reads the lists of all events that were sent, and those that have alerts without one.
func (r *recorder) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.mu.Lock()
	found := map[string][]string{}
	for name := range r.lists {
		found[name] = nil
	}
	invoked := readsOf(found)
	r.add(0, histories.Invoke, nil, invoked...)
	r.mu.Unlock()

	published, err := r.Stream(ctx)
	for _, s := range published {
		name := s.Rule + "/" + s.Key
		switch {
		case s.Rule != faults.Placed && s.Rule != faults.Unshipped:
		case s.Status == "firing":
			found[name] = append(append(found[name], s.SkippedSteps...), s.Step)
		default:
			found[name] = append(found[name], s.Status)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.add(0, histories.Fail, err, invoked...)
		return err
	}
	r.invokeFound(found)
	r.add(0, histories.OK, nil, readsOf(found)...)
	return nil
}

// invokeFound invokes the appends of elements that are read before the broker has acknowledged their event: they are
// concurrent with the one before.
func (r *recorder) invokeFound(found map[string][]string) {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		l := r.lists[name]
		if l == nil {
			continue
		}
		for _, e := range found[name] {
			for slices.Index(l.elements, e) >= len(l.processes) {
				r.invoke(l, r.process())
			}
		}
	}
}

// readsOf returns the reads of lists, by name.
func readsOf(found map[string][]string) (reads []histories.Access) {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		reads = append(reads, histories.Read(name, found[name]...))
	}
	return reads
}

// check reads the alerts, and checks the history up to now.
func (r *recorder) check(ctx context.Context) error {
	if err := r.read(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	violations, err := histories.Check(r.history)
	if err != nil {
		return err
	}
	errs := make([]error, len(violations))
	for i, v := range violations {
		errs[i] = v
	}
	return errors.Join(errs...)
}
