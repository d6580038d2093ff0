package ruletest

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Lines returns a failure as text: the difference, then the explanation. A line of the difference begins with its sign.
func (f Failure) Lines() []string {
	lines := []string{f.Message}
	if f.Diff != nil {
		lines[0] += " (- expected, + actual)"
		lines = append(lines, "")
		lines = append(lines, f.Diff.lines()...)
	}
	if len(f.Hints) > 0 {
		lines = append(lines, "")
		lines = append(lines, f.Hints...)
	}
	if len(f.Explanation) > 0 {
		of := f.Of
		if of == "" {
			of = "all rules"
		}
		lines = append(lines, "", of+":")
		lines = append(lines, explanationLines(f.Explanation)...)
	} else if f.Of != "" {
		lines = append(lines, "", f.Of+": no event starts a job")
	}
	return lines
}

// lines returns the difference as a table.
func (d *Diff) lines() []string {
	rows := [][]string{append([]string{" "}, headings(d.Columns)...)}
	for _, l := range d.Lines {
		cells := []string{l.Sign}
		for _, c := range d.Columns {
			text := strings.ReplaceAll(l.Cells[c], "\n", " ")
			if slices.Contains(l.Wrong, c) {
				text = "[" + text + "]"
			}
			cells = append(cells, text)
		}
		if l.Line > 0 {
			cells = append(cells, fmt.Sprintf("line %d", l.Line))
		}
		rows = append(rows, cells)
	}
	return aligned(rows)
}

func headings(columns []string) []string {
	names := slices.Clone(columns)
	for i, c := range names {
		names[i] = strings.ReplaceAll(strings.TrimPrefix(c, "label "), "_", " ")
	}
	return names
}

func explanationLines(entries []Entry) []string {
	var rows [][]string
	for _, e := range entries {
		rows = append(rows, []string{" ", e.At, e.Kind, strings.ReplaceAll(e.Text, "\n", " ")})
		for _, note := range e.Notes {
			rows = append(rows, []string{" ", "", "", "  " + note})
		}
	}
	return aligned(rows)
}

// aligned returns rows as lines with aligned columns.
func aligned(rows [][]string) []string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			if j == 1 {
				b.WriteString(" ")
			} else if j > 1 {
				b.WriteString("  ")
			}
			b.WriteString(cell + strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)))
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}
