package events_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/rules"
)

// write applies rules as one file.
func (w *fixture) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.rules, "rules.yaml"), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	report, err := w.registry().ApplyDir(w.t.Context(), w.rules)
	if err != nil || len(report.Problems) > 0 {
		w.t.Fatal(err, report.Problems)
	}
}

func (w *fixture) deadLetters() []futurejobs.DeadLetter {
	w.t.Helper()
	page, err := w.store.DeadLetters(w.t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Items
}

// Each event has a result, regardless of its contents: a job with a key, or a dead letter with a reason. None blocks
// the next one.
func TestEachEventHasResult(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.write(`
name: reads
entity: order
trigger: {event: reads, key: event.id, if: event.if != "no"}
escalate: [{after: 1h, step: primary}]
---
name: reads-nothing
entity: device
trigger: {event: beats.*, key: wildcard(1)}
escalate: [{after: 1h, step: primary}]
`)
	w.start()
	deep := func(levels int) string {
		return `{"id":"deep` + fmt.Sprint(levels) + `","d":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
	}
	long := func(size int) string {
		const head, tail = `{"id":"long","x":"`, `"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	for _, c := range []struct{ name, subject, body, key, reason string }{
		{"just short enough", "reads", long(events.MaxBody), "long", ""},
		{"too long", "reads", long(events.MaxBody + 1), "", "the body has 262145 bytes, at most 262144 are taken in"},
		{"too long for one that reads nothing", "beats.long", strings.Repeat("x", events.MaxBody+1), "", "262145 bytes"},
		{"just not too deep", "reads", deep(64), "deep64", ""},
		{"too deep", "reads", deep(65), "", "nested deeper than 64 levels"},
		{"a long key", "reads", `{"id":"` + strings.Repeat("k", 512) + `"}`, strings.Repeat("k", 512), ""},
		{"too long a key", "reads", `{"id":"` + strings.Repeat("k", 513) + `"}`, "", "the key has 513 bytes, the most is 512"},
		{"an empty key", "reads", `{"id":""}`, "", "the key is empty"},
		{"no key", "reads", `{}`, "", "key"},
		{"invalid UTF-8", "reads", "{\"id\":\"\xff\"}", "", "not UTF-8"},
		{"half a pair of surrogates", "reads", `{"id":"\ud800"}`, "", "U+FFFD"},
		{"NUL in a key", "reads", `{"id":"a\u0000b"}`, "", `"\u0000"`},
		{"NUL elsewhere", "reads", `{"id":"nul","x":"\u0000"}`, "nul", ""},
		{"a number beyond all", "reads", `{"id":"huge","x":1e400}`, "", "the number 1e400 is too large"},
		{"a number beyond all as a key", "reads", `{"id":12345678901234567890123}`, "12345678901234567890123", ""},
		{"a name twice", "reads", `{"id":"first","id":"last"}`, "last", ""},
		{"wildcards in a key", "reads", `{"id":"a.b.*.>"}`, "a.b.*.>", ""},
		{"spaces in a key", "reads", `{"id":" a b\t"}`, " a b\t", ""},
		{"an empty body", "reads", "", "", "the event has no body"},
		{"not JSON", "reads", "id=7", "", "the body is not JSON"},
		{"more than one document", "reads", `{"id":"one"} {}`, "", "the body is not JSON"},
		{"an empty body that nothing reads", "beats.empty", "", "empty", ""},
		{"not JSON and nothing reads it", "beats.text", "id=7", "text", ""},
		{"no UTF-8 and nothing reads it", "beats.bytes", "\xff\x00", "bytes", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(w.deadLetters())
			seq := w.publish(c.subject, c.body)
			w.waitUntilCaughtUp(bus.EventsStream, seq)
			rule := "reads"
			if c.subject != "reads" {
				rule = "reads-nothing"
			}
			fresh := w.deadLetters()[:len(w.deadLetters())-before]
			if c.reason == "" {
				if _, err := w.store.Job(t.Context(), rule, c.key); err != nil || len(fresh) != 0 {
					t.Errorf("job %q: %v; letters: %+v", c.key, err, fresh)
				}
				return
			}
			if len(fresh) != 1 || !strings.Contains(fresh[0].Reason, c.reason) || fresh[0].Event.Seq != seq {
				t.Errorf("letters: %+v, want one because of %q", fresh, c.reason)
			}
		})
	}
}

// rejectWrites makes the database reject jobs with a key prefix, in any transaction.
func (w *fixture) rejectWrites(on bool) {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.data, store.DatabaseFile)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	text := `DROP TRIGGER poison`
	if on {
		text = `CREATE TRIGGER poison BEFORE INSERT ON future_job WHEN NEW.key LIKE 'poison%' BEGIN SELECT RAISE(ABORT, 'poison'); END`
	}
	if _, err := db.ExecContext(w.t.Context(), text); err != nil {
		w.t.Fatal(err)
	}
}

// An event that the database rejects permanently is isolated within its batch, and delays no other rule and no other
// event. It can be ingested once the cause is removed.
func TestDatabaseRefusals(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.write(`
name: by-id
entity: order
trigger: {event: orders, key: event.id}
escalate: [{after: 1h, step: primary}]
---
name: by-number
entity: order
trigger: {event: orders, key: event.number}
escalate: [{after: 1h, step: primary}]
`)
	w.rejectWrites(true)
	const all = 200
	var last uint64
	bad := map[int]bool{0: true, 57: true, 58: true, all - 1: true}
	for i := range all {
		id, number := fmt.Sprint(i), fmt.Sprintf("n%d", i)
		if bad[i] {
			id = fmt.Sprintf("poison%d", i)
		}
		if i == 58 {
			number = "poison too"
		}
		last = w.publish("orders", fmt.Sprintf(`{"id":%q,"number":%q}`, id, number))
	}
	n := w.start()
	w.waitUntilCaughtUp(bus.EventsStream, last)

	letters := w.deadLetters()
	if pending, _ := w.jobs(); pending != 2*all-len(bad)-1 {
		t.Errorf("%d jobs, want all but %d", pending, len(bad)+1)
	}
	if c := w.cursor(bus.EventsStream); c.Created != int64(2*all-len(bad)-1) {
		t.Errorf("%d jobs are counted", c.Created)
	}
	if len(letters) != len(bad) {
		t.Fatalf("%d letters, want %d: %+v", len(letters), len(bad), letters)
	}
	for _, l := range letters {
		both := strings.Contains(string(l.Event.Data), "poison too")
		if !strings.Contains(string(l.Event.Data), "poison") || (l.Rule == "by-id") == both || (l.Rule == "") != both || !strings.Contains(l.Reason, "the database refuses a value") {
			t.Errorf("letter of rule %q for %s: %s", l.Rule, l.Event.Data, l.Reason)
		}
	}
	n.stop()

	retry := w.deadLetterRetrier()
	if got, err := retry.RetryAll(t.Context(), futurejobs.Filter{}, 0); err != nil || got.Refused != len(bad) {
		t.Errorf("while it is still so: %+v, %v", got, err)
	}
	w.rejectWrites(false)
	if got, err := retry.RetryAll(t.Context(), futurejobs.Filter{}, 0); err != nil || got.TakenIn != len(bad) || len(w.deadLetters()) != 0 {
		t.Errorf("when it is over: %+v, %v", got, err)
	}
	if pending, _ := w.jobs(); pending != 2*all {
		t.Errorf("%d jobs in the end, want %d", pending, 2*all)
	}
}

func (w *fixture) deadLetterRetrier() *events.DeadLetters {
	return &events.DeadLetters{DeadLetterStore: w.store, Catalog: rules.NewCatalog(w.store, w.store.Shards()), Now: time.Now}
}

// A retry matches only the part of the rule that rejected the event, in its current version.
func TestRetriesMatchRefusingPart(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rule := `
name: order-unshipped
entity: order
trigger: {event: orders.*, key: event.id, if: wildcard(1) == "created"}
resolve: {event: orders.*, key: event.id, if: %s}
escalate: [{after: 1h, step: primary}]
`
	w.write(fmt.Sprintf(rule, `event.total > 5`))
	n := w.start()
	w.waitUntilCaughtUp(bus.EventsStream, w.publish("orders.created", `{"id":"1","total":"many"}`))
	letters := w.deadLetters()
	if len(letters) != 1 || letters[0].Part != futurejobs.Resolves {
		t.Fatalf("%+v", letters)
	}
	w.waitUntilCaughtUp(bus.EventsStream, w.publish("orders.other", `{"id":"1","total":6}`))
	if pending, ended := w.jobs(); pending != 0 || ended != 1 {
		t.Fatalf("%d pending and %d ended, want one that ended", pending, ended)
	}
	w.write(fmt.Sprintf(rule, `event.total == "many"`))
	retry := w.deadLetterRetrier()
	if got, err := retry.Retry(t.Context(), letters[0].ID); err != nil || got.TakenIn != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if pending, ended := w.jobs(); pending != 0 || ended != 1 {
		t.Errorf("%d pending and %d ended: the trigger was taken in twice", pending, ended)
	}
	if _, err := retry.Retry(t.Context(), letters[0].ID); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a letter that went: %v", err)
	}

	w.waitUntilCaughtUp(bus.EventsStream, w.publish("orders.created", `{"total":1}`))
	n.stop()
	orphan := w.deadLetters()[0]
	if err := w.registry().Delete(t.Context(), "order-unshipped", rules.AnyVersion, rules.BundleOf(w.rules)); err != nil {
		t.Fatal(err)
	}
	if got, err := retry.Retry(t.Context(), orphan.ID); err != nil || got.Refused != 1 || !strings.Contains(got.Reason, "no longer exists; drop the dead letter") {
		t.Errorf("of a rule that was deleted: %+v, %v", got, err)
	}
}

// A retry is late: it does not affect a job created after the event, and an event that was too large still is.
func TestRetriesAreDelayed(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rule := `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id, if: %s}
escalate: [{after: 1h, step: primary}]
`
	w.write(fmt.Sprintf(rule, `event.total > 5`))
	w.start()
	w.publish("orders.shipped", `{"id":"1","total":"many"}`)
	w.publish("orders.created", `{"id":"2"}`)
	w.publish("orders.shipped", `{"id":"2","total":"many"}`)
	w.publish("orders.created", `{"id":"long","text":"`+strings.Repeat("x", events.MaxBody)+`"}`)
	w.waitUntilCaughtUp(bus.EventsStream, w.publish("orders.created", `{"id":"1"}`))
	w.write(fmt.Sprintf(rule, `event.total == "many"`))

	got, err := w.deadLetterRetrier().RetryAll(t.Context(), futurejobs.Filter{}, 0)
	if err != nil || got.Tried != 3 || got.TakenIn != 2 || got.Refused != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.store.Job(t.Context(), "order-unshipped", "1"); err != nil {
		t.Errorf("the wait that began later: %v", err)
	}
	if pending, ended := w.jobs(); pending != 1 || ended != 1 {
		t.Errorf("%d pending and %d ended, want one of each", pending, ended)
	}
	left := w.deadLetters()
	if len(left) != 1 || left[0].Size <= events.MaxBody || left[0].Tries != 1 || left[0].Reason != events.BodyTooLarge(left[0].Size) {
		t.Errorf("%d letters are left: %q", len(left), left[0].Reason)
	}
}

// A dead letter without its body can't be retried; the error names the reason and the event's position.
func TestRetryWithoutBodyIsRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.write(`
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
escalate: [{after: 1h, step: primary}]
`)
	w.start()
	const body = `{"number":"1"}`
	w.waitUntilCaughtUp(bus.EventsStream, w.publish("orders.created", body))
	if _, err := w.store.CapLetters(t.Context(), store.LetterCaps{Letters: 1, BodyBytes: 1 << 20, TotalBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	letter := w.deadLetters()[0]
	if letter.Size != len(body) || len(letter.Event.Data) != 0 {
		t.Fatalf("the letter still has %d of %d bytes", len(letter.Event.Data), letter.Size)
	}
	want := fmt.Sprintf("the body of %d bytes was removed", len(body))
	got, err := w.deadLetterRetrier().Retry(t.Context(), letter.ID)
	if err != nil || got.Refused != 1 || !strings.Contains(got.Reason, want) || !strings.Contains(got.Reason, "message 1 of stream "+bus.EventsStream) {
		t.Errorf("%+v, %v", got, err)
	}
}
