package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"deadman/alerts"
	"deadman/internal/replay"
)

// replayOutput prints the results of a replay.
type replayOutput interface {
	alert(a alerts.Alert) error
	end(s *replay.Summary) error
}

// newReplayOutput returns the output in the format of the command line. In text and CSV, a comparison and suggestions replace
// the alerts.
func newReplayOutput(io *cli, out io.Writer, v *replayRun) replayOutput {
	isCompared, isSuggested := v.old != "", len(v.wanted) > 0
	switch {
	case io.output == asJSON:
		return &replayJSON{out: out, summary: v.summary}
	case io.output == asCSV && isCompared:
		return &differenceCSV{out: csv.NewWriter(out), summary: v.summary}
	case io.output == asCSV && isSuggested:
		return &suggestionCSV{out: csv.NewWriter(out)}
	case io.output == asCSV:
		return &replayCSV{out: csv.NewWriter(out), summary: v.summary}
	}
	return &replayText{io: io, out: out, alerts: make(map[alerts.Status]int64), summary: v.summary, withoutAlerts: v.summary || isCompared || isSuggested}
}

// replayedAlert is an alert of a replay in JSON and CSV.
type replayedAlert struct {
	Slot     time.Time       `json:"slot"`
	Rule     string          `json:"rule"`
	Entity   string          `json:"entity"`
	Key      string          `json:"key"`
	Step     string          `json:"step,omitempty"`
	Severity alerts.Severity `json:"severity"`
	Status   alerts.Status   `json:"status"`
	Text     string          `json:"text"`
	Since    time.Time       `json:"since"`
	ID       alerts.ID       `json:"id"`
}

func newReplayedAlert(a alerts.Alert) replayedAlert {
	return replayedAlert{a.Slot, a.Rule, a.Entity, a.Key, a.Step, a.Severity, a.Status, a.Text, a.Since, a.ID}
}

// replayText prints a line for each alert, and a table of the rules.
type replayText struct {
	io      *cli
	out     io.Writer
	summary bool
	alerts  map[alerts.Status]int64 // number by status

	withoutAlerts bool
}

func (t *replayText) alert(a alerts.Alert) error {
	if t.alerts[a.Status]++; t.withoutAlerts {
		return nil
	}
	parts := []string{
		t.io.palette.paint(dim, t.io.exact(a.Slot)), t.io.palette.paint(newAlertColour(a), fmt.Sprintf("%-8s", severityOrStatus(a))),
		sanitize(a.Rule), t.io.palette.paint(bold, sanitize(a.Entity+" "+a.Key)),
	}
	if a.Step != "" {
		parts = append(parts, sanitize(a.Step))
	}
	_, err := fmt.Fprintln(t.out, strings.Join(append(parts, sanitize(a.Text)), "  "))
	return err
}

func (t *replayText) end(s *replay.Summary) error {
	if len(t.alerts) > 0 && !t.withoutAlerts {
		fmt.Fprintln(t.out)
	}
	read := ""
	if s.Unread != nil {
		read = fmt.Sprintf(" (%s on subjects of the rules)", humanize.Comma(s.Events-s.Unread.Events))
	}
	fmt.Fprintf(t.out, "%s%s from %s to %s, %s\n\n", counted(s.Events, "event"), read, t.io.exact(s.From), t.io.exact(s.Until), t.alertCounts(s.Against != nil))
	w := newTable(t.out, t.io.palette, "rule", "jobs", "in time", "late", "never", "pending", "p50", "p95", "p99", "guards", "alerts by step")
	for _, r := range s.Rules {
		w.row(cellOf(r.Name), numberCell(r.Started), numberCell(r.InTime), numberCell(r.Late), numberCell(r.Never), numberCell(r.Pending),
			quantileCell(r.Took.P50), quantileCell(r.Took.P95), quantileCell(r.Took.P99), guardCell(r), cellOf(stepCounts(r)))
	}
	err := w.end()
	if err == nil && len(s.Suggestions) > 0 {
		err = t.suggestions(s.Suggestions)
	}
	if err != nil || s.Against == nil {
		return err
	}
	return t.difference(s.Against)
}

// alertCounts returns the number of firing alerts, and that of each other status. A comparison counts the alerts of all
// statuses, so that their sum precedes.
func (t *replayText) alertCounts(isCompared bool) string {
	parts := []string{counted(t.alerts[alerts.Firing], "alert")}
	if isCompared {
		var all int64
		for _, n := range t.alerts {
			all += n
		}
		parts[0] = fmt.Sprintf("%s after the change: %s firing", counted(all, "alert"), humanize.Comma(t.alerts[alerts.Firing]))
	}
	for _, status := range []alerts.Status{alerts.Resolved, alerts.Undetermined, alerts.GaveUp, alerts.Expired} {
		if n := t.alerts[status]; n > 0 {
			parts = append(parts, humanize.Comma(n)+" "+strings.ReplaceAll(string(status), "_", " "))
		}
	}
	return strings.Join(parts, ", ")
}

// counted returns a number with separators and its noun.
func counted(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return humanize.Comma(n) + " " + noun
}

// quantileCell returns a number of seconds as a duration; nil: unknown.
func quantileCell(seconds *float64) cell {
	if seconds == nil {
		return dimCell("-")
	}
	return cellOf(replay.DurationText(seconds))
}

// guardCell returns the number of jobs by guard.
func guardCell(r *replay.RuleResult) cell {
	if len(r.Guards) == 0 {
		return dimCell("-")
	}
	return cellOf(strings.Join(replay.Counts(r.Guards), ", "))
}

// stepCounts returns the number of alerts by step, then of alerts about undetermined checks.
func stepCounts(r *replay.RuleResult) string {
	parts := replay.Counts(r.Alerts)
	if r.Undetermined > 0 {
		parts = append(parts, fmt.Sprintf("undetermined %d", r.Undetermined))
	}
	return strings.Join(parts, ", ")
}

// printRefusals prints warnings of subjects and the events that a node would store as dead letters, and returns the error of
// exit code 3 if there are any of the latter. past is the summary of the rules to compare with; nil: none.
func printRefusals(io *cli, s, past *replay.Summary) error {
	warnOfSubjects(io, s)
	var lines []string
	add := func(rule string, refusals []replay.Refusal) {
		for _, f := range refusals {
			lines = append(lines, fmt.Sprintf("%s%s refused, first %s at %s: %s", rule, number(int(f.Events), "event"), f.Subject, io.exact(f.First), f.Reason))
		}
	}
	for _, of := range []struct {
		prefix string
		*replay.Summary
	}{{"", s}, {"--against: ", past}} {
		if of.Summary == nil {
			continue
		}
		add(of.prefix, of.Unruled)
		for _, r := range of.Rules {
			add(of.prefix+r.Name+": ", r.Refusals)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	fmt.Fprintln(io.err, plainLines(strings.Join(lines, "\n")))
	return unmetReplay.err()
}

// warnOfSubjects warns of an input that no rule reads, and of subjects of a rule without events: one may be misspelled.
func warnOfSubjects(io *cli, s *replay.Summary) {
	if s.AllUnread() {
		fmt.Fprintln(io.err, plainLines(fmt.Sprintf("warning: no rule reads the subjects of the events, such as %s", strings.Join(s.Unread.Subjects, ", "))))
	}
	for _, r := range s.Rules {
		if len(r.Absent) > 0 {
			fmt.Fprintln(io.err, plainLines(fmt.Sprintf("warning: rule %s subscribes to %s, and the input has no such event; is the subject misspelled?", r.Name, strings.Join(r.Absent, ", "))))
		}
	}
}

// replayJSON prints one object, with the alerts first.
type replayJSON struct {
	out     io.Writer
	summary bool
	begun   bool
}

func (j *replayJSON) alert(a alerts.Alert) error {
	if j.summary {
		return nil
	}
	raw, err := json.Marshal(newReplayedAlert(a))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(j.out, "%s\n    %s", j.separator(), plainJSON(raw))
	return err
}

// separator returns the text before the next alert.
func (j *replayJSON) separator() string {
	if j.begun {
		return ","
	}
	j.begun = true
	return "{\n  \"alerts\": ["
}

func (j *replayJSON) end(s *replay.Summary) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	raw = plainJSON(raw)
	switch {
	case j.begun:
		_, err = fmt.Fprintf(j.out, "\n  ],%s\n", bytes.TrimPrefix(raw, []byte("{")))
	case j.summary:
		_, err = fmt.Fprintf(j.out, "%s\n", raw)
	default:
		_, err = fmt.Fprintf(j.out, "{\n  \"alerts\": [],%s\n", bytes.TrimPrefix(raw, []byte("{")))
	}
	return err
}

// replayCSV prints a row for each alert; with summary a row for each rule.
type replayCSV struct {
	out     *csv.Writer
	summary bool
	begun   bool
}

func (c *replayCSV) alert(a alerts.Alert) error {
	if c.summary {
		return nil
	}
	if err := c.header(); err != nil {
		return err
	}
	return c.out.Write([]string{
		a.Slot.UTC().Format(time.RFC3339), a.Rule, a.Entity, csvText(a.Key), a.Step, string(a.Severity), string(a.Status), csvText(a.Text),
		a.Since.UTC().Format(time.RFC3339), a.ID.String(),
	})
}

// csvText returns a text of an event for a terminal and for a spreadsheet, which would run a formula: it is escaped, and a
// formula begins with an apostrophe.
func csvText(text string) string {
	if text = sanitize(text); text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}

func (c *replayCSV) header() error {
	if c.begun {
		return nil
	}
	c.begun = true
	return c.out.Write([]string{"slot", "rule", "entity", "key", "step", "severity", "status", "text", "since", "id"})
}

func (c *replayCSV) end(s *replay.Summary) error {
	if c.summary {
		if err := c.out.Write([]string{"rule", "started", "in_time", "late", "never", "pending", "undetermined", "p50", "p95", "p99", "guards"}); err != nil {
			return err
		}
		for _, r := range s.Rules {
			if err := c.out.Write([]string{
				r.Name, fmt.Sprint(r.Started), fmt.Sprint(r.InTime), fmt.Sprint(r.Late), fmt.Sprint(r.Never), fmt.Sprint(r.Pending), fmt.Sprint(r.Undetermined),
				quantileText(r.Took.P50), quantileText(r.Took.P95), quantileText(r.Took.P99),
				strings.Join(replay.Counts(r.Guards), ", "),
			}); err != nil {
				return err
			}
		}
	} else if err := c.header(); err != nil {
		return err
	}
	c.out.Flush()
	return c.out.Error()
}

// quantileText returns seconds; empty: unknown.
func quantileText(seconds *float64) string {
	if seconds == nil {
		return ""
	}
	return fmt.Sprint(*seconds)
}
