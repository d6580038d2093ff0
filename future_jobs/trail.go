package futurejobs

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"deadman/checks"
	"deadman/internal/configfile"
)

// Trail is the log of a pending job, shown to people: an entry per line, oldest first. The store appends to it as
// text, so that checks need not read it.
type Trail string

// TrailMost is how many entries of a job are kept, the newest.
const TrailMost = 16

// entryMost is the maximum size of an entry, in bytes.
const entryMost = 300

// Entry is one event in a job's life: a check after which the job continues or that no alert reports, or another
// change.
type Entry struct {
	Kind     EntryKind
	At       time.Time      // the slot of a check; otherwise the time of the change
	Lateness time.Duration  // of a check: how long after its slot it was decided
	Values   string         // values that the condition read, such as: state.status = "OPEN"
	Step     string         // the name of the step that was taken or, with Held, suppressed; or the names of those that were skipped
	Held     bool           // a step was due and suppressed
	Reason   string         // why it was undetermined or skipped, or failed
	Outcome  checks.Outcome // of a check that ended the job
	Next     time.Time      // the time of the next check
	By       string         // the subject of the event, or the person; empty: unknown
}

// EntryKind is the kind of an entry.
type EntryKind string

// The kinds of entries.
const (
	Checked      EntryKind = "check"
	Updated      EntryKind = "update" // also a member of a set; only the first of a run of updates
	Paused       EntryKind = "pause"
	Resumed      EntryKind = "resume"
	Snoozed      EntryKind = "snooze"
	Moved        EntryKind = "move"
	Rescheduled  EntryKind = "reschedule" // something that the rule reads changed: a calendar
	Acknowledged EntryKind = "acknowledge"
	Reopened     EntryKind = "unacknowledge"
	Failed       EntryKind = "fail" // a heartbeat reported a failure
	Skipped      EntryKind = "skip" // steps that were due before the rule was saved
)

// trailLine is the stored form of an entry. Times are milliseconds since 1970. The kind comes last, so that the end
// of a trail shows the kind of its last entry.
type trailLine struct {
	At       int64  `json:"at"`
	Lateness int64  `json:"late"` // ms
	Values   string `json:"saw"`
	Step     string `json:"took"`
	Held     bool   `json:"held"`
	Why      string `json:"why"`
	Outcome  string `json:"outcome"`
	Next     int64  `json:"next"`
	By       string `json:"by"`
	Kind     string `json:"kind"` // absent: a check
}

// Trail returns a trail of this entry alone. Long fields are shortened.
func (e Entry) Trail() Trail {
	l := trailLine{
		At: e.At.UnixMilli(), Lateness: e.Lateness.Milliseconds(), Values: e.Values, Step: e.Step, Held: e.Held, Why: e.Reason,
		Outcome: string(e.Outcome), By: e.By,
	}
	if !e.Next.IsZero() {
		l.Next = e.Next.UnixMilli()
	}
	if e.Kind != Checked {
		l.Kind = string(e.Kind)
	}
	text := l.text()
	for len(text) > entryMost {
		longest := slices.MaxFunc([]*string{&l.Values, &l.Why, &l.By, &l.Step, &l.Outcome}, func(a, b *string) int {
			return cmp.Compare(len(*a), len(*b))
		})
		*longest = shorter(*longest, max(len(*longest)/8, len(text)-entryMost))
		text = l.text()
	}
	return Trail(text)
}

// text returns the line without its newline.
func (l trailLine) text() string {
	o := make(configfile.ObjectEncoder, 0, 160)
	o.Number("at", l.At)
	o.Number("late", l.Lateness)
	o.Text("saw", l.Values)
	o.Text("took", l.Step)
	o.Flag("held", l.Held)
	o.Text("why", l.Why)
	o.Text("outcome", l.Outcome)
	o.Number("next", l.Next)
	o.Text("by", l.By)
	o.Text("kind", l.Kind)
	return string(o.End())
}

// shorter removes bytes from the end of a text and marks it as shortened.
func shorter(text string, by int) string {
	const mark = "…"
	return strings.ToValidUTF8(text[:max(len(text)-by-len(mark), 0)], "") + mark
}

// UpdateEnds is the end of each line of an update, and of no other.
const UpdateEnds = `"kind":"update"}`

// With returns the trail with an entry appended, in the same way as the store does. Of consecutive updates the first
// is kept: a job may receive many between two checks.
func (t Trail) With(added Trail) Trail {
	switch {
	case t == "" || added == "":
		return t + added
	case strings.HasSuffix(string(t), UpdateEnds) && strings.HasSuffix(string(added), UpdateEnds):
		return t
	}
	lines := strings.Split(string(t+"\n"+added), "\n")
	return Trail(strings.Join(lines[max(len(lines)-TrailMost, 0):], "\n"))
}

// Entries returns the entries, oldest first. Unreadable lines are skipped.
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
			Kind: cmp.Or(EntryKind(l.Kind), Checked), At: time.UnixMilli(l.At).UTC(), Lateness: time.Duration(l.Lateness) * time.Millisecond,
			Values: l.Values, Step: l.Step, Held: l.Held, Reason: l.Why, Outcome: checks.Outcome(l.Outcome), By: l.By,
		}
		if l.Next != 0 {
			e.Next = time.UnixMilli(l.Next).UTC()
		}
		all = append(all, e)
	}
	return all
}
