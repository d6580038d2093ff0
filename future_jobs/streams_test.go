package futurejobs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// doorRule is a rule with a trigger, a resolve and changes in streams that a test chooses.
const doorRule = `
name: %s
entity: door
trigger: {event: %s, key: event.id}
resolve: {event: door.closed, key: event.id}
update: {event: door.seen, key: event.id}
pause: {event: door.held, key: event.id, if: event.held == true}
escalate: [{after: 48h, step: only}]
slot: 1s
again: %s
`

// streamFixture are the streams of a rule, which are read concurrently.
type streamFixture struct {
	*testing.T
	store   *store.Store
	catalog *rules.Catalog
	seq     map[string]uint64
	of      map[string]string // the stream of a subject
	rule    string
}

// newStreamFixture saves a rule that reads the door's triggers, ends and changes from the given streams. With two streams
// of triggers, such as AB, each has a subject of its own.
func newStreamFixture(t *testing.T, s *store.Store, name, again, triggers, ends, changes string) *streamFixture {
	t.Helper()
	of := map[string]string{"door.closed": ends, "door.seen": changes, "door.held": changes}
	if len(triggers) == 1 {
		of["door.opened"] = triggers
		return streamFixtureOf(t, s, name, fmt.Sprintf(doorRule, name, "door.opened", again), of)
	}
	for _, stream := range strings.Split(triggers, "") {
		of["door.opened."+stream] = stream
	}
	return streamFixtureOf(t, s, name, fmt.Sprintf(doorRule, name, "door.opened.*", again), of)
}

// streamFixtureOf saves a rule that reads subjects from streams prefixed with the rule's name.
func streamFixtureOf(t *testing.T, s *store.Store, name, document string, of map[string]string) *streamFixture {
	t.Helper()
	src := &streamFixture{T: t, store: s, catalog: rules.NewCatalog(s, 4), seq: make(map[string]uint64), rule: name, of: make(map[string]string)}
	for subject, stream := range of {
		src.of[subject] = name + stream
	}
	src.save(document, nil)
	return src
}

// save saves the next version of the rule. unread has the number of older events in a stream that are not read yet.
func (s *streamFixture) save(document string, unread map[string]uint64) {
	s.Helper()
	documents, err := rules.Parse([]byte(document), "test.yaml")
	if err != nil {
		s.Fatal(err)
	}
	saved := rules.RuleVersion{Name: s.rule, Entity: "door"}
	for subject, stream := range s.of {
		if strings.HasPrefix(subject, "door.opened.") {
			subject = "door.opened.*"
		}
		saved.Reads = append(saved.Reads, rules.StreamBinding{Subject: subject, Stream: stream, From: s.seq[stream] + unread[stream]})
	}
	if saved.Document, err = json.Marshal(documents[0]); err != nil {
		s.Fatal(err)
	}
	if _, err := s.store.Save(s.Context(), saved, rules.AnyVersion); err != nil {
		s.Fatal(err)
	}
	if err := s.catalog.Refresh(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// streamEvent is an event of a door.
type streamEvent struct {
	subject string
	key     string
	at      time.Time // by the clock of its stream
	body    string    // in addition to the id
}

// apply applies events of one stream in one batch.
func (s *streamFixture) apply(all ...streamEvent) futurejobs.ApplyResult {
	s.Helper()
	stream := s.of[all[0].subject]
	batch := futurejobs.EffectBatch{Stream: stream, After: s.seq[stream], RuleSet: s.catalog.Revision()}
	for _, h := range all {
		s.seq[stream]++
		effects, refused := s.catalog.Match(futurejobs.Event{
			Stream: stream, Subject: h.subject, Seq: s.seq[stream], At: h.at, Data: fmt.Appendf(nil, `{"id":%q%s}`, h.key, h.body),
		})
		if len(refused) > 0 {
			s.Fatal(refused)
		}
		batch.Effects, batch.LastAt = append(batch.Effects, effects...), h.at
	}
	batch.Last = s.seq[stream]
	applied, err := s.store.Apply(s.Context(), batch)
	if err != nil {
		s.Fatal(err)
	}
	return applied
}

// job returns the pending job of a key; nil: none.
func (s *streamFixture) job(key string) *futurejobs.Job {
	s.Helper()
	l, err := s.store.Job(s.Context(), s.rule, key)
	switch {
	case errors.Is(err, futurejobs.ErrNotFound):
		return nil
	case err != nil:
		s.Fatal(err)
	}
	return &l.Job
}

// created returns the number of jobs of a key, pending and ended.
func (s *streamFixture) created(key string) int {
	s.Helper()
	history, err := s.store.History(s.Context(), futurejobs.Filter{Key: key, Rule: s.rule, Limit: futurejobs.MaxLimit})
	if err != nil {
		s.Fatal(err)
	}
	n := len(history.Items)
	if s.job(key) != nil {
		n++
	}
	return n
}

// onDatabases runs a test on each database.
func onDatabases(t *testing.T, test func(t *testing.T, s *store.Store)) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": storetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), store.Options{DatabaseURL: url(t), DataDir: storetest.DataDir(t), Shards: 4, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			test(t, s)
		})
	}
}

// anHourAgo returns the time of a test's first event: all of its events are past.
func anHourAgo() time.Time { return time.Now().Add(-time.Hour).UTC().Truncate(time.Second) }

// A door that was opened, closed and opened again is open, for any order of reading the streams.
func TestEndLeavesJobOfTriggerAfterIt(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		for _, again := range []string{"keep", "restart"} {
			s := newStreamFixture(t, db, again, again, "A", "B", "B")
			for name, order := range map[string][]int{"in order": {0, 1, 2}, "the end last": {0, 2, 1}, "the end first": {1, 0, 2}} {
				key, at := again+" "+name, anHourAgo()
				events := []streamEvent{
					{"door.opened", key, at.Add(time.Second), `,"by":"ada"`},
					{"door.closed", key, at.Add(2 * time.Second), ""},
					{"door.opened", key, at.Add(3 * time.Second), `,"by":"<bob> & sons"`},
				}
				for _, i := range order {
					s.apply(events[i])
				}
				j := s.job(key)
				switch {
				case j == nil:
					t.Errorf("%s: no job is pending, and the door is open", key)
				case !j.Since.Equal(events[2].at) || !bytes.Contains(j.Event, []byte("<bob> & sons")):
					t.Errorf("%s: the job is since %v with %s, want %v with the second trigger's body", key, j.Since, j.Event, events[2].at)
				}
				if n := s.created(key); n != 2 {
					t.Errorf("%s: %d jobs were created, want 2", key, n)
				}
			}
		}
	})
}

// An ignored trigger stays ignored if its end is read before it.
func TestKeptTriggerIsKeptWhenItsEndIsReadFirst(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		s := newStreamFixture(t, db, "door", "keep", "A", "B", "B")
		at := anHourAgo()
		for key, order := range map[string][]int{"after the first": {0, 2, 1}, "before both": {2, 0, 1}} {
			events := []streamEvent{
				{"door.opened", key, at.Add(1 * time.Second), ""}, {"door.opened", key, at.Add(2 * time.Second), ""}, {"door.closed", key, at.Add(3 * time.Second), ""},
			}
			for _, i := range order {
				s.apply(events[i])
			}
			if j := s.job(key); j != nil {
				t.Errorf("%s: a job is pending since %v, and the door was closed after that", key, j.Since)
			}
			if n := s.created(key); n != 1 {
				t.Errorf("%s: %d jobs were created, want 1", key, n)
			}
		}
	})
}

// An older update or pause of another stream does not apply to a job.
func TestEventsOlderThanJobDoNotChangeIt(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		s := newStreamFixture(t, db, "door", "restart", "A", "B", "C")
		at := anHourAgo()
		s.apply(streamEvent{"door.opened", "front", at.Add(3 * time.Second), `,"lock":"new"`})
		s.apply(streamEvent{"door.seen", "front", at.Add(1 * time.Second), `,"lock":"old"`}, streamEvent{"door.held", "front", at.Add(2 * time.Second), `,"held":true`})
		j := s.job("front")
		if j == nil || !j.PausedAt().IsZero() || !strings.Contains(string(j.Known()), `"new"`) {
			t.Errorf("the job is %+v, want it unpaused with its own body", j)
		}
	})
}

// Within the tolerance an end belongs to the trigger that it seems to be older than, in any order of reading, unless
// another job was open that it may have ended.
func TestEventsWithinToleranceOfClocks(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		const near = futurejobs.ClockSkew - 10*time.Millisecond
		for _, again := range []string{"keep", "restart"} {
			s := newStreamFixture(t, db, again, again, "A", "B", "B")
			at := anHourAgo()
			opened := func(key string, after time.Duration) streamEvent {
				return streamEvent{"door.opened", key, at.Add(after), ""}
			}
			closed := func(key string, after time.Duration) streamEvent {
				return streamEvent{"door.closed", key, at.Add(after), ""}
			}
			for _, c := range []struct {
				name   string
				events []streamEvent
				open   bool
			}{
				{"alone, trigger first", []streamEvent{opened("1", time.Second), closed("1", time.Second-near)}, false},
				{"alone, end first", []streamEvent{closed("2", time.Second-near), opened("2", time.Second)}, false},
				{"just within, trigger first", []streamEvent{opened("8", time.Second), closed("8", time.Second-futurejobs.ClockSkew)}, false},
				{"just within, end first", []streamEvent{closed("9", time.Second-futurejobs.ClockSkew), opened("9", time.Second)}, false},
				{"too old, trigger first", []streamEvent{opened("3", time.Second), closed("3", 900*time.Millisecond-1)}, true},
				{"too old, end first", []streamEvent{closed("4", 900*time.Millisecond-time.Microsecond), opened("4", time.Second)}, true},
				{"of the job before, read last", []streamEvent{opened("5", 0), opened("5", time.Second), closed("5", time.Second-near)}, true},
				{"of the job before, read between", []streamEvent{opened("6", 0), closed("6", time.Second-near), opened("6", time.Second)}, true},
				{"of the job before, read first", []streamEvent{closed("7", time.Second-near), opened("7", 0), opened("7", time.Second)}, true},
			} {
				for _, h := range c.events {
					s.apply(h)
				}
				if open := s.job(c.events[0].key) != nil; open != c.open {
					t.Errorf("%s, %s: pending is %v, want %v", again, c.name, open, c.open)
				}
			}
		}
	})
}

// Events of one stream are applied in its order: their times do not matter.
func TestEventsOfOneStreamAreInItsOrder(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		s := newStreamFixture(t, db, "door", "keep", "A", "A", "A")
		at := anHourAgo()
		s.apply(streamEvent{"door.opened", "front", at.Add(time.Second), ""}, streamEvent{"door.closed", "front", at, ""}) // a clock was set back
		if j := s.job("front"); j != nil {
			t.Errorf("a job is pending since %v", j.Since)
		}
		s.apply(streamEvent{"door.opened", "back", at.Add(2 * time.Second), ""})
		s.apply(streamEvent{"door.closed", "back", at.Add(time.Second), ""})
		if j := s.job("back"); j != nil {
			t.Errorf("a job is pending since %v", j.Since)
		}
	})
}

// A job that a person began is not ended by an older event.
func TestEndOlderThanJobBegunByHandLeavesIt(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		s := newStreamFixture(t, db, "door", "keep", "A", "A", "A")
		now, err := s.store.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rule, err := s.catalog.Newest("door")
		if err != nil {
			t.Fatal(err)
		}
		effect, err := rule.Start("front", time.Time{}, now, nil, 4)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: s.catalog.Revision(), Effects: []futurejobs.Effect{effect}}); err != nil {
			t.Fatal(err)
		}
		s.apply(streamEvent{"door.closed", "front", now.Add(-time.Minute), ""})
		if s.job("front") == nil {
			t.Fatal("an end from a minute before took the job away")
		}
		s.apply(streamEvent{"door.closed", "front", now.Add(time.Minute), ""})
		if s.job("front") != nil {
			t.Error("an end after it left the job")
		}
	})
}

// An update and a pause of another stream that are read before their trigger change its job, with or without a
// pending job at that time.
func TestChangeThatIsReadBeforeItsTriggerChangesItsJob(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		at := anHourAgo()
		after := func(seconds int) time.Time { return at.Add(time.Duration(seconds) * time.Second) }
		for _, again := range []string{"keep", "restart"} {
			s := newStreamFixture(t, db, again, again, "A", "B", "C")
			events := []streamEvent{
				{"door.opened", "", after(1), `,"by":"ada"`},
				{"door.seen", "", after(2), `,"lock":"old"`},
				{"door.closed", "", after(3), ""},
				{"door.opened", "", after(5), `,"by":"bob"`},
				{"door.seen", "", after(6), `,"lock":"<new> & \u0000"`},
				{"door.held", "", after(7), `,"held":true`},
			}
			for name, order := range map[string][]int{
				"no job": {0, 1, 2, 4, 5, 3}, "no job yet": {1, 2, 4, 5, 0, 3}, "the job before": {0, 1, 4, 5, 2, 3}, "a kept trigger": {0, 1, 4, 5, 3, 2},
			} {
				for _, i := range order {
					h := events[i]
					h.key = name
					s.apply(h)
				}
				j := s.job(name)
				if j == nil {
					t.Fatalf("%s, %s: no job", again, name)
				}
				var known struct{ By, Lock string }
				if err := json.Unmarshal(j.Known(), &known); err != nil {
					t.Fatal(err)
				}
				if !j.Since.Equal(after(5)) || !j.PausedAt().Equal(after(7)) || known.By != "bob" || known.Lock != "<new> & \x00" {
					t.Errorf("%s, %s: the job is since %v, paused at %v and knows %s", again, name, j.Since, j.PausedAt(), j.Known())
				}
			}
		}
	})
}

// A change that was read early is carried from job to job until its own job begins.
func TestChangeThatIsReadAheadOfTwoJobsChangesSecond(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		at := anHourAgo()
		event := func(subject string, second int) streamEvent {
			return streamEvent{subject, "front", at.Add(time.Duration(second) * time.Second), `,"lock":"new"`}
		}
		for name, c := range map[string]struct {
			triggers string
			events   []streamEvent
		}{
			"ended-twice": {"A", []streamEvent{
				event("door.opened", 1), event("door.opened", 3), event("door.seen", 6), event("door.closed", 2), event("door.closed", 4), event("door.opened", 5),
			}},
			"an-older-trigger": {"AB", []streamEvent{
				event("door.opened.B", 1), event("door.opened.B", 8), event("door.seen", 6), event("door.closed", 2), event("door.opened.A", 5),
			}},
		} {
			s := newStreamFixture(t, db, name, "keep", c.triggers, "C", "D")
			for _, h := range c.events {
				if strings.HasPrefix(h.subject, "door.opened") {
					h.body = ""
				}
				s.apply(h)
			}
			if j := s.job("front"); j == nil || !j.Since.Equal(at.Add(5*time.Second)) || !strings.Contains(string(j.Known()), "new") {
				t.Errorf("%s: the job is %+v, want one since second 5 that knows of second 6", name, j)
			}
		}
	})
}

// A pause and its resume are in two streams, read in any order: the job is paused between them.
func TestPauseAndItsResumeOfTwoStreams(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		document := strings.Replace(fmt.Sprintf(doorRule, "door", "door.opened", "keep"), "pause: {event: door.held, key: event.id, if: event.held == true}",
			"pause: [{event: door.held, key: event.id, if: event.held == true}, {event: door.freed, key: event.id, if: event.held == true}]", 1)
		s := streamFixtureOf(t, db, "door", document, map[string]string{"door.opened": "A", "door.closed": "A", "door.seen": "A", "door.held": "B", "door.freed": "C"})
		at := anHourAgo()
		after := func(seconds int) time.Time { return at.Add(time.Duration(seconds) * time.Second) }
		opened := streamEvent{"door.opened", "", after(1), ""}
		held, heldLater := streamEvent{"door.held", "", after(2), `,"held":true`}, streamEvent{"door.held", "", after(5), `,"held":true`}
		freed := streamEvent{"door.freed", "", after(3), `,"held":false`}
		still, over := []checks.Pause{{From: after(5)}}, []checks.Pause{{From: after(2), To: after(3)}}
		for name, c := range map[string]struct {
			events []streamEvent
			want   []checks.Pause
		}{
			"in order":                   {[]streamEvent{opened, held, freed}, over},
			"the resume first":           {[]streamEvent{opened, freed, held}, over},
			"both before the trigger":    {[]streamEvent{freed, held, opened}, over},
			"the resume was before it":   {[]streamEvent{opened, heldLater, freed}, still},
			"the resume first, before":   {[]streamEvent{opened, freed, heldLater}, still},
			"all before, another resume": {[]streamEvent{heldLater, freed, opened}, still},
		} {
			for _, h := range c.events {
				h.key = name
				s.apply(h)
			}
			j := s.job(name)
			if j == nil {
				t.Fatalf("%s: no job", name)
			}
			if diff := cmp.Diff(c.want, j.Pauses); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", name, diff)
			}
			if paused := j.NextCheckAt.Equal(futurejobs.FarFuture); paused != c.want[0].To.IsZero() {
				t.Errorf("%s: the next check is at %v", name, j.NextCheckAt)
			}
		}
	})
}

// A trigger that is older than the job replaces the job's trigger, and the changes so far are played on the job of the
// older one. The job of the newer trigger has each of these changes once.
func TestOlderTriggerLeavesPausesOfKeptJob(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		s := newStreamFixture(t, db, "door", "keep", "AB", "C", "D")
		at := anHourAgo()
		after := func(seconds int) time.Time { return at.Add(time.Duration(seconds) * time.Second) }
		for _, h := range []streamEvent{
			{"door.opened.B", "front", after(20), ""},
			{"door.held", "front", after(30), `,"held":false`},
			{"door.held", "front", after(40), `,"held":true`},
			{"door.opened.A", "front", after(5), ""},
			{"door.closed", "front", after(10), ""},
		} {
			s.apply(h)
		}
		j := s.job("front")
		if j == nil || !j.Since.Equal(after(20)) {
			t.Fatalf("the job is %+v, want one since second 20", j)
		}
		if diff := cmp.Diff([]checks.Pause{{From: after(40)}}, j.Pauses); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// News of two streams are read in any order, and the later ones count.
func TestLaterOfTwoUpdatesCounts(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		document := strings.Replace(fmt.Sprintf(doorRule, "door", "door.opened", "keep"), "update: {event: door.seen, key: event.id}",
			"update: [{event: door.seen, key: event.id}, {event: door.tried, key: event.id}]", 1)
		s := streamFixtureOf(t, db, "door", document, map[string]string{"door.opened": "A", "door.closed": "A", "door.seen": "B", "door.tried": "C", "door.held": "A"})
		at := anHourAgo()
		s.apply(streamEvent{"door.opened", "front", at, `,"lock":"none"`})
		s.apply(streamEvent{"door.seen", "front", at.Add(2 * time.Second), `,"lock":"new"`})
		s.apply(streamEvent{"door.tried", "front", at.Add(time.Second), `,"lock":"old","tried":true`})
		if known := string(s.job("front").Known()); !strings.Contains(known, `"new"`) || !strings.Contains(known, `"tried":true`) {
			t.Errorf("the state is %s, want the lock of the later patch and the other fields of the older ones", known)
		}
		// News of one stream are applied in its order, even if its clock was set back.
		s.apply(streamEvent{"door.opened", "back", at, `,"lock":"none"`})
		s.apply(streamEvent{"door.seen", "back", at.Add(4 * time.Second), `,"lock":"first"`})
		s.apply(streamEvent{"door.seen", "back", at.Add(3 * time.Second), `,"lock":"second"`})
		if known := string(s.job("back").Known()); !strings.Contains(known, `"second"`) {
			t.Errorf("the state is %s, want the lock of the second patch of the stream", known)
		}
		// The same applies to patches that are read before their trigger, the first of them at the edge of its
		// tolerance.
		s.apply(streamEvent{"door.seen", "side", at.Add(4 * time.Second), `,"lock":"first"`})
		s.apply(streamEvent{"door.seen", "side", at.Add(3 * time.Second), `,"lock":"second"`})
		s.apply(streamEvent{"door.opened", "side", at, `,"lock":"none"`})
		s.apply(streamEvent{"door.seen", "edge", at.Add(-futurejobs.ClockSkew), `,"lock":"second"`})
		s.apply(streamEvent{"door.opened", "edge", at, `,"lock":"none"`})
		for _, key := range []string{"side", "edge"} {
			if known := string(s.job(key).Known()); !strings.Contains(known, `"second"`) {
				t.Errorf("%s: the state is %s, want the second patch of the stream", key, known)
			}
		}
	})
}

// Of many changes read before their trigger, only the newest change its job.
func TestOfManyEarlyChangesNewestAreRemembered(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		s := newStreamFixture(t, db, "door", "keep", "A", "B", "B")
		at := anHourAgo()
		for key, c := range map[string]struct {
			size int
			want string
		}{"small": {1, "[12 13 14 15 16 17 18 19]"}, "large": {100 << 10, "[19]"}} {
			for i := range 20 {
				s.apply(streamEvent{"door.seen", key, at.Add(time.Duration(1+i) * time.Second), fmt.Sprintf(`,"n%d":%q`, i, strings.Repeat("x", c.size))})
			}
			s.apply(streamEvent{"door.opened", key, at, ""})
			var state map[string]any
			if err := json.Unmarshal(s.job(key).Known(), &state); err != nil {
				t.Fatal(err)
			}
			var known []int
			for i := range 20 {
				if state[fmt.Sprint("n", i)] != nil {
					known = append(known, i)
				}
			}
			if got := fmt.Sprint(known); got != c.want {
				t.Errorf("%s: the job knows %s, want %s", key, got, c.want)
			}
		}
	})
}

// Of many kept triggers with large bodies, the newest are kept.
func TestOfManyKeptTriggersNewestLeaveTheirTime(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		s := newStreamFixture(t, db, "door", "keep", "A", "B", "B")
		at := anHourAgo()
		for i := range 30 {
			s.apply(streamEvent{"door.opened", "front", at.Add(time.Duration(i) * time.Second), fmt.Sprintf(`,"text":%q`, strings.Repeat("x", 200<<10))})
		}
		s.apply(streamEvent{"door.closed", "front", at.Add(28*time.Second + 500*time.Millisecond), ""})
		if j := s.job("front"); j == nil || !j.Since.Equal(at.Add(29*time.Second)) {
			t.Errorf("the job is %v, want one since the newest trigger", j)
		}
	})
}

// streamOracle is an oracle's state of a door: it receives all events in the order of their times.
type streamOracle struct {
	open    bool
	since   time.Time
	state   map[string]any
	pauses  []checks.Pause
	created int
}

// apply plays an event; again is the rule's treatment of another trigger.
func (k *streamOracle) apply(h streamEvent, again string) {
	var body map[string]any
	if err := json.Unmarshal(fmt.Appendf(nil, `{"id":%q%s}`, h.key, h.body), &body); err != nil {
		panic(err)
	}
	last := len(k.pauses) - 1
	paused := last >= 0 && k.pauses[last].To.IsZero()
	opened := strings.HasPrefix(h.subject, "door.opened")
	switch {
	case opened && (!k.open || again == "restart"):
		*k = streamOracle{open: true, since: h.at, state: body, created: k.created + 1}
	case !k.open || opened:
	case h.subject == "door.closed":
		*k = streamOracle{created: k.created}
	case h.subject == "door.seen":
		for name, value := range body {
			k.state[name] = value
		}
	case body["held"] == true && !paused:
		k.pauses = append(k.pauses, checks.Pause{From: h.at})
	case body["held"] == false && paused:
		k.pauses[last].To = h.at
	}
}

// Streams are read at different speeds, their clocks differ, and the state of each door equals that of an oracle that
// receives all events in the order of their times, for any order of reading.
func TestOutcomesFollowOrderOfTimes(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		for _, streams := range [][3]string{{"A", "B", "B"}, {"A", "B", "C"}, {"A", "B", "A"}, {"A", "A", "B"}, {"AB", "C", "C"}, {"AB", "C", "D"}} {
			for _, again := range []string{"keep", "restart"} {
				seed := uint64(time.Now().UnixNano())
				name := fmt.Sprintf("%s/%s/%d", strings.Join(streams[:], "-"), again, seed)
				t.Run(name, func(t *testing.T) {
					random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it deals cards
					s := newStreamFixture(t, db, again+"-"+strings.ToLower(strings.Join(streams[:], "-")), again, streams[0], streams[1], streams[2])
					s.playAtRandom(random, again, int(drawOdds(20, 100))) // doors
				})
			}
		}
	})
}

// playAtRandom generates events of doors, reads the streams at random lags, and compares the state of each door with
// the oracle.
func (s *streamFixture) playAtRandom(random *rand.Rand, again string, doors int) {
	s.Helper()
	skew := map[string]time.Duration{}
	streams := slices.Compact(slices.Sorted(maps.Values(s.of)))
	for _, stream := range streams {
		skew[stream] = time.Duration(random.Int64N(int64(futurejobs.ClockSkew) / 2)).Truncate(time.Microsecond)
	}
	opened := slices.DeleteFunc(slices.Sorted(maps.Keys(s.of)), func(subject string) bool { return !strings.HasPrefix(subject, "door.opened") })
	begins, oracle := anHourAgo(), make(map[string]*streamOracle)
	unread, story := make(map[string][]streamEvent), make(map[string][]streamEvent)
	for i := range 8 * doors {
		h := streamEvent{key: fmt.Sprintf("d%d", random.IntN(doors))}
		switch random.IntN(8) {
		case 0, 1, 2:
			h.subject, h.body = opened[random.IntN(len(opened))], fmt.Sprintf(`,"opened":%d`, i)
		case 3, 4:
			h.subject = "door.closed"
		case 5, 6:
			h.subject, h.body = "door.seen", fmt.Sprintf(`,"seen":%d,"seen%d":true`, i, i%3)
		default:
			h.subject, h.body = "door.held", fmt.Sprintf(`,"held":%v`, random.IntN(2) == 0)
		}
		stream := s.of[h.subject]
		h.at = begins.Add(time.Duration(i)*2*futurejobs.ClockSkew + skew[stream])
		unread[stream], story[h.key] = append(unread[stream], h), append(story[h.key], h)
		if oracle[h.key] == nil {
			oracle[h.key] = &streamOracle{}
		}
		oracle[h.key].apply(h, again)
	}
	for len(unread) > 0 {
		stream := streams[random.IntN(len(streams))]
		queue := unread[stream]
		if n := min(len(queue), random.IntN(40)); n > 0 {
			s.apply(queue[:n]...)
			unread[stream] = queue[n:]
		}
		if len(unread[stream]) == 0 {
			delete(unread, stream)
		}
	}
	for key, want := range oracle {
		if len(opened) > 1 {
			want.created = s.created(key) // a job that would have begun and ended before the known one leaves no trace
		}
		s.compare(key, want, story[key])
	}
}

// compare compares the state of a door with the oracle.
func (s *streamFixture) compare(key string, want *streamOracle, story []streamEvent) {
	s.Helper()
	got, j := streamOracle{created: s.created(key)}, s.job(key)
	if j != nil {
		got.open, got.since, got.pauses = true, j.Since, j.Pauses
		if err := json.Unmarshal(j.Known(), &got.state); err != nil {
			s.Fatal(err)
		}
		if paused := j.NextCheckAt.Equal(futurejobs.FarFuture); paused == j.PausedAt().IsZero() {
			s.Errorf("%s: the next check is at %v, and the pauses are %v", key, j.NextCheckAt, j.Pauses)
		}
	}
	expected := *want
	expected.state = roundTrip(expected.state)
	if diff := cmp.Diff(expected, got, cmp.AllowUnexported(streamOracle{})); diff != "" {
		s.Errorf("%s: (-oracle +store)\n%s\nof %v", key, diff, story)
	}
}

// roundTrip returns a state after a round trip through JSON.
func roundTrip(state map[string]any) (back map[string]any) {
	text, err := json.Marshal(state)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil {
		panic(err)
	}
	return back
}
