package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// cell is a table cell with untrusted text and a color.
type cell struct {
	text   string
	colour colour
}

func cellOf(text string) cell { return cell{text, normal} }

func colouredCell(c colour, text string) cell { return cell{text, c} }

func numberCell[N int | int32 | int64 | uint64](n N) cell { return cell{fmt.Sprint(n), normal} }

func dimCell(format string, args ...any) cell { return cell{fmt.Sprintf(format, args...), dim} }

const (
	between = 2  // spaces between columns
	least   = 16 // smallest width of a clipped column

	textRoom = 36 // width that the last column, mostly a text, keeps at the expense of others, by default
)

// table prints aligned rows.
type table struct {
	out     io.Writer
	palette colors
	room    int // width that the last column keeps at the expense of others
	rows    [][]cell
}

// newTable returns a table with a header.
func newTable(out io.Writer, p colors, header ...string) *table {
	t := &table{out: out, palette: p, room: textRoom}
	cells := make([]cell, len(header))
	for i, h := range header {
		cells[i] = dimCell("%s", strings.ToUpper(h))
	}
	t.row(cells...)
	return t
}

func (t *table) row(cells ...cell) {
	for i := range cells {
		cells[i].text = sanitize(cells[i].text)
	}
	t.rows = append(t.rows, cells)
}

// end prints the table in full unless fit clipped it.
func (t *table) end() error {
	w := tabwriter.NewWriter(t.out, 0, 4, between, ' ', 0)
	for _, row := range t.rows {
		painted := make([]string, len(row))
		for i, c := range row {
			painted[i] = t.palette.paint(c.colour, c.text)
		}
		fmt.Fprintln(w, strings.Join(painted, "\t"))
	}
	return w.Flush()
}

// drop removes named columns, the first one first, until the rows fit a width in characters; 0 means no limit. A removed
// column that fits beside the remaining ones stays after all, the last one of the names first. It returns the removed columns.
func (t *table) drop(width int, names []string) (dropped []string) {
	if width <= 0 {
		return nil
	}
	for _, name := range names {
		if t.fits(width, dropped) {
			break
		}
		if slices.ContainsFunc(t.rows[0], isHeader(name)) {
			dropped = append(dropped, name)
		}
	}
	for _, name := range slices.Backward(slices.Clone(dropped)) {
		if without := slices.DeleteFunc(slices.Clone(dropped), func(other string) bool { return other == name }); t.fits(width, without) {
			dropped = without
		}
	}
	for _, name := range dropped {
		i := slices.IndexFunc(t.rows[0], isHeader(name))
		for r := range t.rows {
			t.rows[r] = slices.Delete(slices.Clone(t.rows[r]), i, i+1)
		}
	}
	return dropped
}

// isHeader returns a function that reports whether a cell is the header of a named column.
func isHeader(name string) func(cell) bool {
	return func(c cell) bool { return c.text == strings.ToUpper(name) }
}

// fits reports whether the rows fit a width in characters without the dropped columns.
func (t *table) fits(width int, dropped []string) bool {
	needed, last := -between, 0
	for i, w := range t.widths() {
		if !slices.ContainsFunc(dropped, func(name string) bool { return isHeader(name)(t.rows[0][i]) }) {
			needed, last = needed+between+w, w
		}
	}
	return needed-max(0, last-t.room) <= width
}

// printLeftOut names the columns that a table leaves out for the width of the terminal.
func printLeftOut(io *cli, left []string) {
	if len(left) == 0 {
		return
	}
	note := "columns left out for this width: " + strings.Join(left, ", ")
	for _, line := range wrapText(note, max(terminalWidth(io.out), len("columns left out"))) {
		fmt.Fprintln(io.err, line)
	}
}

// fit clips the rows to a width in characters; 0 means no limit. It shortens the last column down to
// its room, then the widest of the others, then the last column.
func (t *table) fit(width int) *table {
	if width <= 0 {
		return t
	}
	columns := t.widths()
	over := between*(len(columns)-1) - width
	for _, w := range columns {
		over += w
	}
	give := func(i, keep int) {
		if cut := min(over, columns[i]-keep); cut > 0 {
			columns[i] -= cut
			over -= cut
		}
	}
	last := len(columns) - 1
	give(last, t.room)
	for range last {
		widest := 0
		for i, w := range columns[:last] {
			if w > columns[widest] {
				widest = i
			}
		}
		give(widest, least)
	}
	give(last, least)
	for _, row := range t.rows {
		for i := range row {
			row[i].text = clip(row[i].text, columns[i])
		}
	}
	return t
}

// widths returns the widths of the columns, in characters.
func (t *table) widths() []int {
	columns := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, c := range row {
			columns[i] = max(columns[i], utf8.RuneCountInString(c.text))
		}
	}
	return columns
}

// relativeCell formats a relative time, or a word if it is zero.
func relativeCell(io *cli, t time.Time, otherwise string) cell {
	if t.IsZero() {
		return dimCell("%s", otherwise)
	}
	return cellOf(io.relative(t))
}
