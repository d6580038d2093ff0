package main

import (
	"encoding/csv"
	"fmt"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/internal/replay"
)

// difference prints the changes of each rule, and then of each alert.
func (t *replayText) difference(d *replay.Difference) error {
	fmt.Fprintln(t.out)
	w := newTable(t.out, t.io.palette, "rule", "alerts before", "after", "comes", "goes", "moves")
	for _, r := range d.Rules {
		w.row(cellOf(r.Rule), numberCell(r.Before), numberCell(r.After), numberCell(r.Comes), numberCell(r.Goes), numberCell(r.Moves))
	}
	if err := w.end(); err != nil || t.summary || len(d.Changes) == 0 {
		return err
	}
	fmt.Fprintln(t.out)
	for _, c := range d.Changes {
		if _, err := fmt.Fprintln(t.out, t.changeLine(c)); err != nil {
			return err
		}
	}
	return nil
}

// changeLine returns a changed alert as a line: the time and the severity or status with both values if they differ.
func (t *replayText) changeLine(c replay.Change) string {
	newer := c.Newer()
	at, status := t.io.exact(newer.Slot), statusOf(newer)
	if c.Change == replay.Moves {
		at, status = arrow(t.io.exact(c.Before.Slot), at), arrow(statusOf(*c.Before), status)
	}
	parts := []string{fmt.Sprintf("%-5s", c.Change), t.io.palette.paint(dim, at), status, sanitize(c.Rule), t.io.palette.paint(bold, sanitize(c.Entity+" "+c.Key))}
	if c.Step != "" {
		parts = append(parts, sanitize(c.Step))
	}
	return strings.Join(append(parts, sanitize(newer.Text)), "  ")
}

func arrow(before, after string) string {
	if before == after {
		return after
	}
	return before + " → " + after
}

// statusOf returns the severity of a firing alert, and the status of any other one.
func statusOf(a replay.ComparedAlert) string {
	if a.Status == alerts.Firing {
		return string(a.Severity)
	}
	return string(a.Status)
}

// differenceCSV prints a row for each change; with summary a row for each rule.
type differenceCSV struct {
	out     *csv.Writer
	summary bool
}

func (c *differenceCSV) alert(alerts.Alert) error { return nil }

func (c *differenceCSV) end(s *replay.Summary) error {
	header := []string{
		"change", "rule", "entity", "key", "step", "since", "slot_before", "slot_after", "severity_before", "severity_after", "status_before", "status_after", "text_before", "text_after",
	}
	if c.summary {
		header = []string{"rule", "before", "after", "comes", "goes", "moves"}
	}
	rows := [][]string{header}
	if c.summary {
		for _, r := range s.Against.Rules {
			rows = append(rows, []string{r.Rule, fmt.Sprint(r.Before), fmt.Sprint(r.After), fmt.Sprint(r.Comes), fmt.Sprint(r.Goes), fmt.Sprint(r.Moves)})
		}
		return c.out.WriteAll(rows)
	}
	for _, change := range s.Against.Changes {
		before, after := alertColumns(change.Before), alertColumns(change.After)
		row := []string{string(change.Change), change.Rule, change.Entity, csvText(change.Key), change.Step, change.Since.UTC().Format(time.RFC3339)}
		for i := range before {
			row = append(row, before[i], after[i])
		}
		rows = append(rows, row)
	}
	return c.out.WriteAll(rows)
}

// alertColumns returns the slot, the severity, the status and the text of an alert; nil: none.
func alertColumns(a *replay.ComparedAlert) [4]string {
	if a == nil {
		return [4]string{}
	}
	return [4]string{a.Slot.UTC().Format(time.RFC3339), string(a.Severity), string(a.Status), csvText(a.Text)}
}
