package replay_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/internal/replay"
	"deadman/rules"
)

// start is the time of the first event of these tests.
var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// playTo plays events and the time until an end, and returns the summary.
func playTo(t *testing.T, r *replay.Replay, events replay.Reader, until time.Time) *replay.Summary {
	t.Helper()
	for {
		e, _, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.Event(t.Context(), e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := r.Finish(t.Context(), until)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// played returns the alerts of a rule for JSON lines, and the summary.
func played(t *testing.T, rule, lines string, until time.Time) (raised []string, s *replay.Summary) {
	t.Helper()
	r := replayOf(t, rule, calendars.Set{}, start)
	r.Raise = func(a alerts.Alert) error {
		raised = append(raised, fmt.Sprintf("%s %s %s %s", a.Slot.Format("02 15:04"), a.Key, a.Step, a.Status))
		return nil
	}
	return raised, playTo(t, r, replay.NewSorted(replay.NewJSONLines(strings.NewReader(lines)), time.Minute), until)
}

// A job that is pending at the end of a replay raises nothing, and no check comes after the end.
func TestReplayEndsBeforeFurtherChecks(t *testing.T) {
	event := `{"subject": "orders.created", "time": "2026-03-02T10:00:00Z", "data": {"id": "1"}}`
	raised, s := played(t, oneStep, event, start.Add(3*time.Hour-time.Second))
	if r := s.Rules[0]; len(raised) != 0 || r.Pending != 1 || r.Started != 1 || r.Took.P50 != nil {
		t.Errorf("%q, %+v", raised, r)
	}
	raised, _ = played(t, oneStep, event, start.Add(3*time.Hour))
	if diff := cmp.Diff([]string{"02 13:00 1 late firing"}, raised); diff != "" {
		t.Error(diff)
	}
}

// Expected keys alert without any event, and a schedule ticks: its events reach other rules.
func TestReplayWithoutEvents(t *testing.T) {
	raised, s := played(t, `
name: backup-missing
entity: backup
trigger: {heartbeat: {event: backups.done, key: event.id, every: 2h, keys: [photos]}}
escalate: [{after: 10m, step: missing}]
---
name: import-due
entity: import
trigger: {schedule: "30 * * * *", emit: {subject: imports.due}}
---
name: import-missing
entity: import
trigger: {event: imports.due, key: event.tick}
resolve: {event: imports.done, key: event.id}
escalate: [{after: 15m, step: missing}]
`, "", start.Add(2*time.Hour+30*time.Minute))
	want := []string{
		"02 10:45 2026-03-02T10:30:00Z missing firing", "02 11:45 2026-03-02T11:30:00Z missing firing", "02 12:10 photos missing firing",
	}
	if diff := cmp.Diff(want, raised); diff != "" || s.Rules[2].Started != 3 {
		t.Errorf("%s\n%+v", diff, s.Rules[2])
	}
}

// Pending jobs and early events count for the limit of memory, until they end.
func TestReplayMemory(t *testing.T) {
	for _, c := range []struct {
		order []string // subjects of each order
		fits  bool
	}{
		{[]string{"orders.created"}, false},
		{[]string{"orders.shipped"}, false},
		{[]string{"orders.created", "orders.shipped"}, true},
		{[]string{"orders.shipped", "orders.created"}, true},
	} {
		r := replayOf(t, strings.Replace(oneStep, "created, key: event.id", "created, key: event.id, since: event.at", 1)+"hold: 0\n", calendars.Set{}, start)
		r.MaxBytes = 8 << 10
		var err error
		for i := 0; i < 100 && err == nil; i++ {
			for j, subject := range c.order {
				if err == nil {
					err = r.Event(t.Context(), replay.Event{
						Subject: subject, Time: start.Add(time.Duration(i)*time.Minute + time.Duration(j)*time.Second), Data: fmt.Appendf(nil, `{"id": "%d", "at": %q}`, i, start.Format(time.RFC3339)),
					})
				}
			}
		}
		if fits := err == nil; fits != c.fits || !fits && !errors.Is(err, replay.ErrMemory) {
			t.Errorf("%v: %v", c.order, err)
		}
	}
}

// Events that a node would store as dead letters are counted by rule and reason.
func TestReplayCountsRefusedEvents(t *testing.T) {
	lines := `
{"subject": "orders.created", "time": "2026-03-02T10:00:00Z", "data": {"order": "1"}}
{"subject": "orders.created", "time": "2026-03-02T10:01:00Z", "data": {"order": "2"}}
{"subject": "other", "time": "2026-03-02T10:02:00Z", "data": {"order": "2"}}
`
	_, s := played(t, oneStep, lines, start.Add(time.Hour))
	refused := s.Rules[0].Refusals
	if len(refused) != 1 || refused[0].Events != 2 || !refused[0].First.Equal(start) || !strings.Contains(refused[0].Reason, "key") || s.Events != 3 {
		t.Errorf("%+v, %d events", refused, s.Events)
	}
}

// Rules whose past decisions are unknown are refused, and so are events out of order.
func TestReplayRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"name: a\nentity: order\ntrigger: {event: orders.created, key: event.id}\nhandler: fraud":                                                                                                            "handler fraud",
		"name: a\nentity: order\ntrigger: {event: orders.created, key: event.id}\nlookup: {sql: {source: shop, query: \"select status from orders where id = $1\", params: [key]}}\nescalate: [{after: 1h}]": "source shop",
	} {
		documents, err := rules.Parse([]byte(text), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := replay.New(t.Context(), documents, nil, nil, start); !errors.Is(err, replay.ErrRule) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	r := replayOf(t, oneStep, nil, start)
	if err := r.Event(t.Context(), replay.Event{Subject: "orders.created", Time: start.Add(-time.Second)}); !errors.Is(err, replay.ErrOrder) {
		t.Errorf("an event before the start: %v", err)
	}
}

// Bad lines are refused with their number and the remedy.
func TestJSONLines(t *testing.T) {
	for line, want := range map[string]string{
		`{"subject": "a", "time": "2026-03-02T10:00:00Z"`:                              "line 2: the object does not end on the line; write one event per line",
		`{"time": "2026-03-02T10:00:00Z"}`:                                             "line 2: the event has no subject",
		`{"subject": "a"}`:                                                             "line 2: the event has no time",
		`{"subject": "a", "time": "today"}`:                                            "line 2: ",
		`{"specversion": "1.0", "time": "2026-03-02T10:00:00Z", "subject": "order 1"}`: "line 2: the CloudEvent has no type",
		`{"subject": "a", "data": "` + strings.Repeat("x", 400_000) + `"}`:             "line 2 has more than 327,680 bytes; write each event on a line of its own",
		`{"subject": "a", "time": "2026-03-02T10:00:00"}`:                              `line 2: time: 2026-03-02T10:00:00 is not a time with the offset of its zone; write "time": "2026-01-31T10:00:00Z"`,
		`[{"subject": "a", "time": "2026-03-02T10:00:00Z"}]`:                           `line 2: a list; write one event, an object, per line, such as {"subject": "orders.created"`,
		"[":                                    "line 2: a list; write one event",
		`"a"`:                                  "line 2: a text; write one event, an object, per line",
		"17":                                   "line 2: the number 17; write one event, an object, per line",
		"hello":                                "line 2: not JSON: invalid character 'h'",
		`{"subject": "a", "time": 1772445600}`: `line 2: time is the number 1772445600, not a text; write "time": "2026-01-31T10:00:00Z"`,
		`{"subject": "a", "Time": {"at": 1}}`:  `line 2: Time is an object, not a text; write "time": "2026-01-31T10:00:00Z"`,
		`{"subject": 5, "time": "2026-03-02T10:00:00Z"}`:                                          `line 2: subject is a number, not a text; write {"subject": "orders.created"`,
		`{"specversion": "1.0", "type": "a", "time": "2026-03-02T10:00:00Z", "data_base64": "%"}`: "line 2: data_base64: illegal base64 data",
		"\x1f\x8b\x08": "line 2: the input is compressed; use zcat",
	} {
		lines := replay.NewJSONLines(strings.NewReader("\n" + line))
		if _, _, err := lines.Next(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", line, err, want)
		}
	}
	cloud := `{"specversion": "1.0", "type": "orders.created", "subject": "order 1", "time": "2026-03-02T12:00:00.1234567+02:00", "data": {"id": 1}}`
	e, place, err := replay.NewJSONLines(strings.NewReader(cloud)).Next()
	if err != nil || place.String() != "line 1" || e.Subject != "orders.created" || string(e.Data) != `{"id": 1}` || !e.Time.Equal(start.Add(123456*time.Microsecond)) {
		t.Errorf("%+v at %s: %v", e, place, err)
	}
	cloud = "\ufeff" + `{"specversion": "1.0", "type": "orders.created", "time": "2026-03-02T10:00:00Z", "data_base64": "eyJpZCI6IDF9"}`
	if e, _, err = replay.NewJSONLines(strings.NewReader(cloud)).Next(); err != nil || string(e.Data) != `{"id": 1}` {
		t.Errorf("a body in base64, after a byte order mark: %+v, %v", e, err)
	}
	broken := errors.New("disk error")
	if _, _, err := replay.NewJSONLines(iotest.ErrReader(broken)).Next(); !errors.Is(err, broken) {
		t.Errorf("a failed read: %v", err)
	}
}

// columnsOf returns the end of a header with more columns.
func columnsOf(n int) (names string) {
	for i := range n {
		names += fmt.Sprintf(",c%d", i+1)
	}
	return names
}

// A rule that recurs is not played for thousands of years up to an event of a wrong time, or to a wrong end.
func TestReplayRefusesGap(t *testing.T) {
	ticking := strings.Replace(oneStep, "trigger: {event: orders.created, key: event.id}", `trigger: {schedule: "* * * * *", keys: [a]}`, 1) + "\nagain: keep\n"
	heartbeat := strings.Replace(oneStep, "trigger: {event: orders.created, key: event.id}", "trigger: {heartbeat: {every: 1m, event: orders.created, key: event.id}}", 1)
	far := time.Date(9026, 3, 2, 10, 0, 0, 0, time.UTC)
	for text, refused := range map[string]bool{ticking: true, heartbeat: true, oneStep: false} {
		play := func() *replay.Replay {
			r := replayOf(t, text, nil, start)
			if err := r.Event(t.Context(), replay.Event{Subject: "orders.created", Time: start, Data: []byte(`{"id": "1"}`)}); err != nil {
				t.Fatal(err)
			}
			return r
		}
		err := play().Event(t.Context(), replay.Event{Subject: "orders.created", Time: far, Data: []byte(`{"id": "1"}`)})
		if _, end := play().Finish(t.Context(), far); errors.Is(err, replay.ErrGap) != refused || errors.Is(end, replay.ErrGap) != refused {
			t.Errorf("%s\nan event: %v, the end: %v", text, err, end)
		}
	}
}

// Bad tables are refused with the line, the column and the remedy.
func TestCSV(t *testing.T) {
	columns := []replay.TimeColumn{{Subject: "orders.created", Column: "created"}, {Subject: "orders.shipped", Column: "shipped"}}
	for text, want := range map[string]string{
		"":                        "the table is empty",
		"id,created\n1,x\n":       `no column "shipped", only id, created`,
		"id,created,id,shipped\n": `the columns 1 and 3 of the table are both named "id"`,
		strings.Repeat("x", 1<<20) + ",created,shipped\n1,2026-03-02,\n": "the header has more than 65536 bytes",
		"id,created,shipped\n1,2\n":                                      "line 2 has 2 columns, and the header has 3; quote values that contain commas",
		"id,created,shipped\n1,\"" + strings.Repeat("x\n", 10<<20):       "the row after line 1 has more than 4194304 bytes",
		"id;created;shipped\n":                                           `no column "created", only id;created;shipped; write the table with commas between the columns`,
		"\x1f\x8b\x08":                                                   "the table is compressed; use zcat",
		"PK\x03\x04\x14":                                                 "export the table as CSV in UTF-8",
		"\xff\xfei\x00d\x00":                                             "the input is not a table of text in UTF-8",
		"\x7fELF\x02\x01\x03":                                            "the input is not a table of text in UTF-8",
		"\"a\nb\"," + strings.Repeat("y", 99) + ",x\n":                   `no column "created", only a\nb, ` + strings.Repeat("y", 39) + "…, x",
		"id" + columnsOf(40) + "\n":                                      ", c29 and 11 others",
		"id,created,shipped\n1,x,\n":                                     `line 2: column created: "x" is not a time`,
	} {
		if _, err := replay.NewCSV(strings.NewReader(text), columns, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := replay.NewCSV(strings.NewReader("\ufeffcreated,shipped\n"), columns, time.UTC); err != nil {
		t.Errorf("a table after a byte order mark: %v", err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	table, err := replay.NewCSV(strings.NewReader("id,created,shipped\n1,2026-03-02 11:00:00,2026-03-02T11:00:00Z\n2,2026-03-02,\n"), columns, berlin)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		e, place, err := table.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		got = append(got, fmt.Sprintf("%s: %s %s %s", place, e.Time.Format("02 15:04"), e.Subject, e.Data))
	}
	want := []string{
		`line 3: 01 23:00 orders.created {"created":"2026-03-02","id":"2","shipped":""}`,
		`line 2: 02 10:00 orders.created {"created":"2026-03-02 11:00:00","id":"1"}`,
		`line 2: 02 11:00 orders.shipped {"created":"2026-03-02 11:00:00","id":"1","shipped":"2026-03-02T11:00:00Z"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// listed reads events from a list. A subject that is a number is the line of the event.
type listed []replay.Event

func (l *listed) Next() (replay.Event, replay.Place, error) {
	if len(*l) == 0 {
		return replay.Event{}, replay.Place{}, io.EOF
	}
	e := (*l)[0]
	*l = (*l)[1:]
	line, _ := strconv.Atoi(e.Subject)
	return e, replay.Line(line), nil
}

// Events within the bound are sorted, and keep their order if their times are equal; the first one beyond it is refused with
// its place.
func TestSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := time.Duration(rapid.IntRange(0, 5).Draw(t, "bound"))
		var input listed
		var latest time.Time
		beyond := -1
		for i, offset := range rapid.SliceOf(rapid.IntRange(0, 12)).Draw(t, "times") {
			at := start.Add(time.Duration(offset))
			if beyond < 0 && latest.Sub(at) > bound {
				beyond = i + 1
			}
			if at.After(latest) {
				latest = at
			}
			input = append(input, replay.Event{Subject: fmt.Sprint(i + 1), Time: at})
		}
		want := slices.Clone(input)
		slices.SortStableFunc(want, func(a, b replay.Event) int { return a.Time.Compare(b.Time) })
		sorted := replay.NewSorted(&input, bound)
		var got listed
		for {
			e, place, err := sorted.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				if beyond < 0 || place.String() != "line "+fmt.Sprint(beyond) || !errors.Is(err, replay.ErrOrder) || !strings.HasPrefix(err.Error(), place.String()) {
					t.Fatalf("%s: %v, want line %d", place, err, beyond)
				}
				return
			}
			got = append(got, e)
		}
		if diff := cmp.Diff(want, got); diff != "" || beyond >= 0 {
			t.Fatalf("line %d is beyond the bound (-want +got):\n%s", beyond, diff)
		}
	})
}
