package futurejobs

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/internal/configfile"
)

// Trail is what became of a job between its beginning and its end, for people who ask why: an
// entry a line, oldest first. The store adds to it by text, so that no look has to read it.
type Trail string

// TrailMost is how many entries are kept of a job, the newest.
const TrailMost = 16

// entryMost is how much of a trail an entry takes, in bytes.
const entryMost = 300

// Entry is one thing that happened to a job: a look after which it goes on or of which no alert
// tells, or something else that changed it.
type Entry struct {
	Kind    EntryKind
	At      time.Time      // the slot of a look; else when it happened
	Late    time.Duration  // of a look: how long after its slot it was decided
	Saw     string         // what the condition saw, such as: state.status = "OPEN"
	Took    string         // the step that was taken, by its name
	Held    bool           // a step was due, and stayed unsaid
	Why     string         // why it could not be found out, or was not looked at
	Outcome checks.Outcome // of a look that ended the job
	Next    time.Time      // when it is looked at next
	By      string         // the subject of the event that did it, or who; empty: nobody knows
}

// EntryKind is what an entry is about.
type EntryKind string

// The kinds of entries.
const (
	Looked       EntryKind = "look"
	Updated      EntryKind = "update" // also a member of a set; only the first until something else follows
	Paused       EntryKind = "pause"
	Resumed      EntryKind = "resume"
	Snoozed      EntryKind = "snooze"
	Moved        EntryKind = "move"
	Acknowledged EntryKind = "acknowledge"
	Reopened     EntryKind = "unacknowledge"
)

// trailLine is an entry as it is kept. Instants are milliseconds since 1970. The kind comes last, so
// that the end of a trail tells what its last entry is about.
type trailLine struct {
	At      int64  `json:"at"`
	Late    int64  `json:"late"` // ms
	Saw     string `json:"saw"`
	Took    string `json:"took"`
	Held    bool   `json:"held"`
	Why     string `json:"why"`
	Outcome string `json:"outcome"`
	Next    int64  `json:"next"`
	By      string `json:"by"`
	Kind    string `json:"kind"` // absent: a look
}

// Trail is a trail of this entry alone. What of it is long is cut short.
func (e Entry) Trail() Trail {
	l := trailLine{
		At: e.At.UnixMilli(), Late: e.Late.Milliseconds(), Saw: e.Saw, Took: e.Took, Held: e.Held, Why: e.Why,
		Outcome: string(e.Outcome), By: e.By,
	}
	if !e.Next.IsZero() {
		l.Next = e.Next.UnixMilli()
	}
	if e.Kind != Looked {
		l.Kind = string(e.Kind)
	}
	text := l.text()
	for len(text) > entryMost {
		longest := slices.MaxFunc([]*string{&l.Saw, &l.Why, &l.By, &l.Took, &l.Outcome}, func(a, b *string) int {
			return cmp.Compare(len(*a), len(*b))
		})
		*longest = shorter(*longest, max(len(*longest)/8, len(text)-entryMost))
		text = l.text()
	}
	return Trail(text)
}

// text is a line without its end.
func (l trailLine) text() string {
	o := make(configfile.ObjectEncoder, 0, 160)
	o.Number("at", l.At)
	o.Number("late", l.Late)
	o.Text("saw", l.Saw)
	o.Text("took", l.Took)
	o.Flag("held", l.Held)
	o.Text("why", l.Why)
	o.Text("outcome", l.Outcome)
	o.Number("next", l.Next)
	o.Text("by", l.By)
	o.Text("kind", l.Kind)
	return string(o.End())
}

// shorter is a text without some bytes of its end, and with a mark that it was longer.
func shorter(text string, by int) string {
	const mark = "…"
	return strings.ToValidUTF8(text[:max(len(text)-by-len(mark), 0)], "") + mark
}

// UpdateEnds is how the line of an update ends, and no other.
const UpdateEnds = `"kind":"update"}`

// With is the trail with an entry that came after it. It is what the store makes of both. Of
// updates that follow each other the first is kept: a job may get many between two looks.
func (t Trail) With(news Trail) Trail {
	switch {
	case t == "" || news == "":
		return t + news
	case strings.HasSuffix(string(t), UpdateEnds) && strings.HasSuffix(string(news), UpdateEnds):
		return t
	}
	lines := strings.Split(string(t+"\n"+news), "\n")
	return Trail(strings.Join(lines[max(len(lines)-TrailMost, 0):], "\n"))
}

// Entries are the entries, oldest first. A line that can't be read is left out.
func (t Trail) Entries() []Entry {
	if t == "" {
		return nil
	}
	var all []Entry
	for text := range strings.SplitSeq(string(t), "\n") {
		var l trailLine
		if json.Unmarshal([]byte(text), &l) != nil {
			continue
		}
		e := Entry{
			Kind: cmp.Or(EntryKind(l.Kind), Looked), At: time.UnixMilli(l.At).UTC(), Late: time.Duration(l.Late) * time.Millisecond,
			Saw: l.Saw, Took: l.Took, Held: l.Held, Why: l.Why, Outcome: checks.Outcome(l.Outcome), By: l.By,
		}
		if l.Next != 0 {
			e.Next = time.UnixMilli(l.Next).UTC()
		}
		all = append(all, e)
	}
	return all
}

// addTrail has the job keep what an effect did to it. Of several effects of one run it keeps the last.
func (f *fold) addTrail(e Effect, s *foldedJob, kind EntryKind) {
	entry := Entry{Kind: kind, At: f.eventTime(e)}
	if kind != Updated && s.job.PausedAt().IsZero() {
		entry.Next = s.job.NextCheckAt
	}
	if e.Event != nil {
		entry.By = e.Event.Subject
	}
	switch a := e.Action.(type) {
	case Acknowledge:
		entry.By = a.Ack.By
	case Snooze:
		entry.By = a.By
	}
	s.job.Trail = entry.Trail()
}

// addTrail has the job keep what a look at slot came to. What ends a job is in its history, and
// what is said in its alert: a look that ends it leaves no entry, unless nothing else tells what
// the condition saw.
func (d *Decision) addTrail(slot, now time.Time, answer checks.Answer) {
	d.Job.Trail = ""
	if d.Ends() && (answer.Saw == "" || len(d.Alerts) > 0) {
		return
	}
	e := Entry{Kind: Looked, At: slot, Late: max(now.Sub(slot), 0), Saw: answer.Saw, Held: answer.Held, Outcome: d.Outcome}
	if !d.Ends() {
		e.Next, e.Why = d.Job.NextCheckAt, d.Reason
	}
	for _, a := range d.Alerts {
		if a.Status == alerts.Firing {
			e.Took = a.Step
		}
	}
	d.Job.Trail = e.Trail()
}
