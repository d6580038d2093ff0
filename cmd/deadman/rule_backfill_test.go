package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/web"
)

const lateOrders = `
name: late-orders
entity: order
slot: 1s
trigger: {event: orders.created, key: event.id, since: event.at}
resolve: {event: orders.shipped, key: event.id}
while: state.id != "5"
escalate: [{after: 1h, step: late}, {after: 2h, step: lost}]
`

// backfillNode returns a node with the events of nine orders of yesterday: two are shipped, one is of no interest. Of another
// order of today no step is due.
func backfillNode(t *testing.T) *inProcessNode {
	t.Helper()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "reader.yaml", strings.Replace(lateOrders, "late-orders", "reader", 1)+"enabled: false\n"))
	send := func(subject string, id int, at time.Time) {
		n.mustRun("event", "send", subject, fmt.Sprintf(`{"id": "%d", "at": %q}`, id, at.UTC().Format(time.RFC3339)))
	}
	for id := range 9 {
		send("orders.created", id, time.Now().Add(-24*time.Hour))
	}
	send("orders.created", 9, time.Now())
	for id := range 2 {
		send("orders.shipped", id, time.Now())
	}
	return n
}

// The alerts that a dry run of a backfill counts are those that the node raises.
func TestBackfillRaisesCountedAlerts(t *testing.T) {
	t.Parallel()
	n := backfillNode(t)
	file := writeFile(t, t.TempDir(), "late.yaml", lateOrders)
	const text = "8 jobs from past events, 6 alerts are raised at once"
	n.expect(0, []string{"rule", "apply", "-f", file, "--backfill", "7d", "--raise-past", "--dry-run"}, text)
	plain := n.mustRun("rule", "apply", "-f", file, "--backfill", "7d", "--dry-run")
	if strings.Contains(plain, "at once") || !strings.Contains(plain, "8 jobs from past events, 7 of them skip steps that were due before") {
		t.Errorf("without --raise-past: %s", plain)
	}
	raised := func() int {
		return len(readJSON[web.Page[web.Alert]](n, "alert", "list", "--rule", "late-orders").Items)
	}
	if got := raised(); got != 0 {
		t.Fatalf("the dry run raised %d alerts", got)
	}
	applied := readJSON[applyOutput](n, "rule", "apply", "-f", file, "--backfill", "7d", "--raise-past", "--yes").Rules[0]
	if applied.Past != 8 || applied.Alerts != 6 || applied.Unknown != 0 {
		t.Errorf("%+v", applied)
	}
	checked := func() bool { // all but the order of today
		page := readJSON[web.Page[web.Job]](n, "job", "list", "--rule", "late-orders")
		count := 0
		for _, j := range page.Items {
			if j.CheckCount == 0 {
				count++
			}
		}
		return count == 1
	}
	for until := time.Now().Add(time.Minute); !checked() && time.Now().Before(until); {
		time.Sleep(100 * time.Millisecond)
	}
	if got := raised(); got != applied.Alerts || !checked() {
		t.Errorf("%d alerts were raised, want %d; all jobs were checked: %t", got, applied.Alerts, checked())
	}
	n.expect(0, []string{"rule", "apply", "-f", file, "--backfill", "7d", "--raise-past", "--dry-run"}, "1 job from past events, 0 alerts are raised at once")
}

// Deleted events of the range are a warning on standard error, before the confirmation. A time that is not in the past is refused.
func TestBackfillRange(t *testing.T) {
	t.Parallel()
	n := backfillNode(t)
	file := writeFile(t, t.TempDir(), "late.yaml", lateOrders)
	apply := []string{"rule", "apply", "-f", file, "--backfill"}
	for value, want := range map[string]string{
		"+3d": `--backfill "+3d" is `, "2999-01-01": "in the future; use a duration back from now, such as 7d", "tomorrow": "use a duration back from now, such as 7d",
	} {
		n.expect(2, append(apply, value), want)
	}
	if page := readJSON[web.Page[web.Rule]](n, "rule", "list", "--prefix", "late-"); len(page.Items) != 0 {
		t.Errorf("a refused backfill saved %+v", page.Items)
	}
	js := bustest.JetStream(t, bustest.LogIn(t, n.dir, n.at.NATS, bus.UserAdmin))
	stream, err := js.Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeKeep(5)); err != nil {
		t.Fatal(err)
	}
	const warning = "warning: rule late-orders: The stream of orders.created, orders.shipped has deleted its events before "
	for _, more := range []string{"--dry-run", "--yes"} {
		args := append(apply, "7d", more)
		got := runInProcess(t, "", n.env, args...)
		got.check(t, args, 0, "3 jobs from past events")
		if !strings.HasPrefix(got.err, warning) || strings.Contains(got.out, "deleted") {
			t.Errorf("%s: stderr %q, output %q", more, got.err, got.out)
		}
	}
}

// The alerts of missing heartbeats are counted if the node reads their stream without a gap since then. After a gap the interval
// restarts, and they are unknown.
func TestBackfillOfHeartbeats(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	const scanner = "entity: scanner\nslot: 1s\ntrigger: {heartbeat: {event: scans.made, key: event.id, every: 2s}}\nescalate: [{after: 0s, step: silent}]\n"
	dir := t.TempDir()
	n.mustRun("rule", "apply", "-f", writeFile(t, dir, "reader.yaml", strings.Replace(lateOrders, "orders.created", "scans.made", 1)))
	ingest := func(written int) (s web.Stream) {
		for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			for _, s = range readJSON[web.Page[web.Stream]](n, "event", "streams").Items {
				if s.LastSeq >= uint64(written) && !s.GapFreeSince.IsZero() {
					return s
				}
			}
		}
		t.Fatalf("the stream is not read: %+v", s)
		return s
	}
	ingest(0)
	for id := range 3 {
		n.mustRun("event", "send", "scans.made", fmt.Sprintf(`{"id": "%d", "at": %q}`, id, time.Now().UTC().Format(time.RFC3339)))
	}
	read := ingest(3)
	time.Sleep(4 * time.Second) // the heartbeats are missing
	file := writeFile(t, dir, "scanner.yaml", "name: scanner\n"+scanner)
	dry := readJSON[applyOutput](n, "rule", "apply", "-f", file, "--backfill", "1h", "--raise-past", "--dry-run").Rules[0]
	if isKnown := read.GapFreeSince.Before(read.LastAt); !isKnown || dry.Past != 3 || dry.Alerts != 3 || dry.Unknown != 0 {
		t.Errorf("without a gap (%t): %+v", isKnown, dry)
	}
	n.mustRun("rule", "apply", "-f", file, "--backfill", "1h", "--raise-past", "--yes")
	raised := 0
	for until := time.Now().Add(time.Minute); raised < 3 && time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		raised = len(readJSON[web.Page[web.Alert]](n, "alert", "list", "--rule", "scanner").Items)
	}
	if raised != 3 {
		t.Errorf("%d alerts were raised", raised)
	}
}
