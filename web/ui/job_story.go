package ui

import (
	"cmp"
	"slices"
	"time"

	"deadman/web"
)

// jobStory is what happened to one job, newest first.
type jobStory struct {
	web.Job
	Ended *web.Ended // nil: it waits
	Line  []storyEntry
	Event string // what began the wait, as people read JSON; empty: nothing is known of it
}

// storyEntry is something that happened. Looks that are alike and follow each other are one.
type storyEntry struct {
	At    time.Time
	From  time.Time // the first of several; zero: it is one
	Times int       // how many; 0: one
	Kind  string    // how it is shown
	Word  string
	Text  string
	Saw   string // what the condition saw
	Next  time.Time
	Then  string     // what is at Next
	Alert *web.Alert // nil: it is none
	Began bool       // the wait did
}

// storyOf is the story of a job, by what is kept of it and the alerts that were said about it.
func storyOf(j web.Job, ended *web.Ended, said []web.Alert) jobStory {
	s := jobStory{Job: j, Ended: ended, Event: indented(j.Event)}
	s.Line = append(s.Line, storyEntry{At: j.Since, Kind: "began", Word: "began", Then: "first look", Next: j.FirstCheckAt, Began: true})
	told := make([]bool, len(j.Trail)) // by an alert
	for _, a := range said {
		m := storyEntry{At: a.DecidedAt, Kind: severityRank(a), Word: severityRank(a), Text: a.Text, Alert: &a}
		for i, e := range j.Trail {
			if e.Kind == "look" && e.Step != "" && e.Step == a.Step && e.At.Equal(a.Slot) {
				m.Saw, told[i] = e.Saw, true
			}
		}
		s.Line = append(s.Line, m)
	}
	for i, e := range j.Trail {
		if !told[i] {
			s.Line = append(s.Line, momentOf(e))
		}
	}
	if ended != nil {
		s.Line = append(s.Line, storyEntry{At: ended.EndedAt, Kind: outcome(ended.Outcome), Word: string(ended.Outcome), Text: ended.Reason})
	}
	slices.SortStableFunc(s.Line, func(a, b storyEntry) int { return cmp.Compare(b.At.UnixMilli(), a.At.UnixMilli()) })
	s.Line = groupChecks(s.Line)
	if ended == nil && !j.NextCheckAt.IsZero() {
		s.Line = append([]storyEntry{{At: j.NextCheckAt, Kind: "ahead", Word: "next look"}}, s.Line...)
	}
	return s
}

// deedsDone are entries of a trail that are no looks, in words.
var deedsDone = map[string]string{
	"update": "updated", "pause": "paused", "resume": "resumed", "snooze": "snoozed", "move": "moved",
	"acknowledge": "acknowledged", "unacknowledge": "taken back",
}

// momentOf is an entry of a trail.
func momentOf(e web.TrailEntry) storyEntry {
	m := storyEntry{At: e.At, Kind: "waiting", Word: "look", Saw: e.Saw, Then: "next look", Next: e.Next}
	if e.Kind == "look" {
		m.At = e.At.Add(time.Duration(e.LateSeconds * float64(time.Second)))
	}
	switch {
	case e.Kind != "look":
		m.Kind, m.Word = "noted", deedsDone[e.Kind]
		if e.By != "" {
			m.Text = "by " + e.By
		}
	case e.Outcome != "":
		m.Text, m.Kind = "over: "+string(e.Outcome), outcome(e.Outcome)
	case e.Step != "":
		m.Text, m.Kind = "step "+e.Step, "open"
	case e.Held:
		m.Text = "a step is due, and held back: somebody acknowledged"
	case e.Reason != "":
		m.Kind, m.Word, m.Text = "undetermined", "not known", e.Reason
	default:
		m.Text = "nothing due;"
	}
	return m
}

// groupChecks puts looks that came to the same, and follow each other, into one.
func groupChecks(line []storyEntry) []storyEntry {
	var all []storyEntry
	for _, m := range line {
		if n := len(all); n > 0 && all[n-1].alike(m) {
			last := &all[n-1]
			last.From, last.Times = m.At, max(last.Times, 1)+1 // Next is the newest's
			continue
		}
		all = append(all, m)
	}
	return all
}

// alike reports whether two moments are looks that came to the same.
func (m storyEntry) alike(o storyEntry) bool {
	look := func(m storyEntry) bool { return m.Alert == nil && (m.Word == "look" || m.Word == "not known") }
	return look(m) && look(o) && m.Word == o.Word && m.Text == o.Text && m.Saw == o.Saw
}

// alertsOfJob takes those of alerts that were said about a job, by their ids.
func alertsOfJob(j web.Job, all []web.Alert) (said []web.Alert) {
	for _, a := range all {
		if slices.Contains(j.Alerts, a.ID) {
			said = append(said, a)
		}
	}
	return said
}
