package ui

import (
	"cmp"
	"slices"
	"time"

	"deadman/web"
)

// jobStory is the history of one job, newest first.
type jobStory struct {
	web.Job
	Ended *web.EndedJob // nil: the job is pending
	Line  []storyEntry
	Event string // trigger event as indented JSON; empty: unknown
}

// storyEntry is one entry of a job's story. Consecutive equal checks share an entry.
type storyEntry struct {
	At     time.Time
	From   time.Time // the first of several; zero: just one
	Times  int       // number of checks; 0: one
	Kind   string    // style
	Word   string
	Text   string
	Values string // values the condition saw
	Next   time.Time
	Then   string     // label of Next
	Alert  *web.Alert // nil: no alert
	Began  bool       // start of the job

	NoNextCheck bool // no further check was planned until a signal
}

// storyOf builds the story of a job from its trail and its alerts.
func storyOf(j web.Job, ended *web.EndedJob, raised []web.Alert) jobStory {
	s := jobStory{Job: j, Ended: ended, Event: indented(j.Event)}
	s.Line = append(s.Line, storyEntry{At: j.Since, Kind: "began", Word: "started", Then: "first check", Next: j.FirstCheckAt, Began: true})
	covered := make([]bool, len(j.Trail)) // trail entries covered by an alert
	for _, a := range raised {
		m := storyEntry{At: a.DecidedAt, Kind: alertStyle(a), Word: alertStyle(a), Text: a.Text, Alert: &a}
		for i, e := range j.Trail {
			if e.Kind == "check" && e.Step != "" && e.Step == a.Step && e.At.Equal(a.Slot) {
				m.Values, covered[i] = e.Values, true
			}
		}
		s.Line = append(s.Line, m)
	}
	for i, e := range j.Trail {
		if !covered[i] {
			s.Line = append(s.Line, momentOf(e))
		}
	}
	if ended != nil {
		s.Line = append(s.Line, storyEntry{At: ended.EndedAt, Kind: outcome(ended.Outcome), Word: string(ended.Outcome), Text: ended.Reason})
	}
	slices.SortStableFunc(s.Line, func(a, b storyEntry) int { return cmp.Compare(b.At.UnixMilli(), a.At.UnixMilli()) })
	s.Line = groupChecks(s.Line)
	if ended == nil && !j.NextCheckAt.IsZero() {
		s.Line = append([]storyEntry{{At: j.NextCheckAt, Kind: "ahead", Word: "next check"}}, s.Line...)
	}
	return s
}

// newest returns the newest alert of the job; nil: it raised none.
func (s jobStory) newest() (last *web.Alert) {
	for _, e := range s.Line {
		if e.Alert != nil && (last == nil || e.Alert.DecidedAt.After(last.DecidedAt)) {
			last = e.Alert
		}
	}
	return last
}

// alertID returns the id of the newest alert of the job; empty: it raised none.
func (s jobStory) alertID() string {
	if last := s.newest(); last != nil {
		return last.ID.String()
	}
	return ""
}

// labels returns the labels of the job's newest alert.
func (s jobStory) labels() map[string]string {
	if last := s.newest(); last != nil {
		return last.Labels
	}
	return nil
}

// trailWords maps trail entries other than checks to words.
var trailWords = map[string]string{
	"update": "updated", "pause": "paused", "resume": "resumed", "snooze": "snoozed", "move": "moved", "reschedule": "rescheduled: a calendar changed",
	"acknowledge": "acknowledged", "unacknowledge": "unacknowledged", "fail": "run failed", "skip": "past steps skipped",
}

// momentOf converts an entry of a trail.
func momentOf(e web.TrailEntry) storyEntry {
	m := storyEntry{At: e.At, Kind: "waiting", Word: "check", Values: e.Values, Then: "next check", Next: e.Next, NoNextCheck: e.NoNextCheck}
	if e.Kind == "check" { // a late check: At is its slot, and the story shows the decision, LatenessSeconds after it
		m.At = e.At.Add(time.Duration(e.LatenessSeconds * float64(time.Second)))
	}
	switch {
	case e.Kind != "check":
		m.Kind, m.Word = "noted", trailWords[e.Kind]
		if m.Text = cmp.Or(e.Step, e.Reason); e.By != "" {
			m.Text = "by " + e.By
		}
	case e.Suppressed:
		m.Text = suppressedText(e)
	case e.Outcome != "":
		m.Text, m.Kind = "ended: "+string(e.Outcome), outcome(e.Outcome)
	case e.Step != "":
		m.Text, m.Kind = "step "+e.Step, "open"
	case e.Reason != "":
		m.Kind, m.Word, m.Text = "undetermined", "undetermined", e.Reason
	default:
		m.Text = "no step due;"
	}
	return m
}

// suppressedText describes a check at which a step was suppressed. Entries of earlier versions have no name of the step.
func suppressedText(e web.TrailEntry) string {
	if e.Step == "" {
		return "step suppressed by an acknowledgement"
	}
	return "step " + e.Step + " suppressed by an acknowledgement"
}

// groupChecks merges consecutive checks with equal results.
func groupChecks(line []storyEntry) []storyEntry {
	var all []storyEntry
	for _, m := range line {
		if n := len(all); n > 0 && all[n-1].alike(m) {
			last := &all[n-1]
			last.From, last.Times = m.At, max(last.Times, 1)+1 // Next stays that of the newest
			continue
		}
		all = append(all, m)
	}
	return all
}

// alike reports whether two entries are checks with equal results.
func (m storyEntry) alike(o storyEntry) bool {
	isCheck := func(m storyEntry) bool { return m.Alert == nil && (m.Word == "check" || m.Word == "undetermined") }
	return isCheck(m) && isCheck(o) && m.Word == o.Word && m.Text == o.Text && m.Values == o.Values
}

// alertsOfJob returns the alerts of a job, by id.
func alertsOfJob(j web.Job, all []web.Alert) (raised []web.Alert) {
	for _, a := range all {
		if slices.Contains(j.Alerts, a.ID) {
			raised = append(raised, a)
		}
	}
	return raised
}
