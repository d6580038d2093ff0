package pings_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/internal/pings"
	"deadman/rules"
)

// The log has the accepted pings with the durations of their runs.
func TestLogEntries(t *testing.T) {
	w := newFixture(t)
	w.run(w.Store)
	const first, second = "684e2e73-017e-465f-8149-d70b7c5aaa49", "784e2e73-017e-465f-8149-d70b7c5aaa49"
	status := 4
	for _, p := range []struct {
		kind rules.Signal
		run  string
		exit *int
	}{
		{rules.Begun, first, nil},
		{rules.Begun, second, nil},
		{rules.Log, first, nil},
		{rules.Success, second, nil},
		{rules.Failure, first, &status},
		{rules.Success, "", nil},
		{rules.Success, second, nil}, // its run has ended already
	} {
		ping := w.newPing("nightly", p.kind)
		ping.Run, ping.Exit, ping.Agent, ping.Body, ping.BodySize = p.run, p.exit, "curl/8", "said", 4
		w.send(ping)
	}
	got := w.log("nightly")
	var took []string
	for i, e := range got {
		took = append(took, fmt.Sprintf("%s %t", e.Signal.Kind, e.Took > 0))
		if e.Agent != "curl/8" || e.Body != "said" || e.BodySize != 4 || e.At.IsZero() || (i > 0 && e.At.After(got[i-1].At)) {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
	want := "success false, success false, fail true, success true, log false, start false, start false"
	if got := strings.Join(took, ", "); got != want {
		t.Errorf("the log has %s, want %s", got, want)
	}
	if len(got) > 2 && (got[2].Signal.Exit == nil || *got[2].Signal.Exit != 4) {
		t.Errorf("the exit status is %v", got[2].Signal.Exit)
	}
}

// The queue is bounded, both for many pings and for large bodies.
func TestLogIsBounded(t *testing.T) {
	w := newFixture(t)
	w.run(w.Store)
	of := w.newPing("nightly", rules.Success).Target
	entry := pings.Entry{RuleID: of.RuleID, Key: "nightly", Signal: pings.Signal{Kind: rules.Success}}
	for i := range 10 * pings.Logged {
		entry.At, entry.BodySize = time.UnixMicro(int64(i)), i
		w.writer.Add(of, entry)
	}
	got := w.log("nightly")
	if len(got) != pings.Logged || got[0].BodySize != 10*pings.Logged-1 {
		t.Errorf("%d entries, the last is %+v", len(got), got[0])
	}
	entry.Body = strings.Repeat("x", pings.MaxBody)
	for i := range 3000 {
		entry.At, entry.BodySize = time.UnixMicro(int64(i)), i
		w.writer.Add(of, entry)
	}
	if got := w.log("nightly"); got[0].BodySize != 2999 || got[pings.Logged-1].BodySize != 2900 {
		t.Errorf("of a flood of one key the log ends with ping %d", got[0].BodySize)
	}
	for i := range 3000 {
		of.Key = fmt.Sprint("key", i)
		entry.Key = of.Key
		w.writer.Add(of, entry)
	}
	all := w.log("")
	if len(all) < 500 {
		t.Errorf("%d entries are in the log", len(all))
	}
	bytes := 0
	for i := range 3000 {
		for _, e := range w.log(fmt.Sprint("key", i)) {
			bytes += len(e.Body)
		}
	}
	if bytes < 8<<20 || bytes > 20<<20 {
		t.Errorf("%d bytes of bodies came to the log of 30 MB", bytes)
	}
}

// The log is also written when the node stops.
func TestLogIsWrittenOnStop(t *testing.T) {
	w := newFixture(t)
	w.run(w.Store)
	of := w.newPing("nightly", rules.Success).Target
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.writer.Run(ctx) }()
	w.writer.Add(of, pings.Entry{RuleID: of.RuleID, Key: "nightly", At: time.Now(), Signal: pings.Signal{Kind: rules.Success}})
	stop()
	failOn(t, <-ended)
	entries, err := w.finder.History(t.Context(), of.RuleID, "nightly", 0, 10)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// A body beyond a quota is not kept, and its ping is logged.
func TestBodiesBeyondQuotaAreNotLogged(t *testing.T) {
	w := newFixture(t)
	w.run(w.Store)
	var quotas access.Quotas
	quotas.Set([]access.Quota{{Prefix: "backup", Set: map[access.Limited]int64{access.LimitKeptPingBytes: 8}}}, 0)
	w.writer.Keep = quotas.KeepPingBody
	for i := range 3 {
		ping := w.newPing("nightly", rules.Success)
		ping.Body, ping.BodySize = fmt.Sprint("body", i), 5
		w.send(ping)
	}
	var bodies []string
	for _, e := range w.log("nightly") {
		bodies = append(bodies, fmt.Sprint(e.Body, " ", e.BodySize))
	}
	if got := strings.Join(bodies, ", "); got != " 5, body1 5, body0 5" {
		t.Errorf("the log has %q", got)
	}
}

// slowLog is a store whose log write starts only after the node stops.
type slowLog struct {
	pings.Store
	stop context.CancelFunc
}

func (s slowLog) LogPings(ctx context.Context, entries []pings.Entry) error {
	s.stop()
	return s.Store.LogPings(ctx, entries)
}

// A node that stops during a log write loses no queued entries.
func TestStopKeepsQueuedLogEntries(t *testing.T) {
	w := newFixture(t)
	w.run(w.Store)
	ctx, stop := context.WithCancel(t.Context())
	of := w.newPing("nightly", rules.Success).Target
	writer := &pings.LogWriter{Store: slowLog{w.Store, stop}, Log: slog.New(slog.DiscardHandler)}
	writer.Add(of, pings.Entry{RuleID: of.RuleID, Key: "nightly", At: time.UnixMicro(1), Signal: pings.Signal{Kind: rules.Success}})
	if err := writer.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := w.log("nightly"); len(got) != 1 {
		t.Errorf("the log has %d entries, want 1", len(got))
	}
}
