package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// barChart draws jobs over time: a bar per bucket with a part per kind of outcome. Its units are those of the drawing.
type barChart struct {
	Columns []column
	Kinds   []kindOfEnd
	Width   int
	Height  int   // height of the tallest bar
	Most    int64 // value of the tallest bar
	Summary string
	Daily   bool // a bucket is a day
}

// column is a bucket of the drawing.
type column struct {
	From  time.Time
	At    string // the history narrowed to the bucket
	X     int
	Mark  string // axis label; empty: none
	Parts []part
	Sum   int64
	Title string
	By    []int64 // jobs by kind

	Uncounted bool // the jobs of the bucket are not counted
}

// part is one kind of outcome in a bar.
type part struct {
	Y, Height int
	Kind      string
}

// kindOfEnd is a kind of outcomes, from good to bad.
type kindOfEnd struct {
	Kind string // style
	Name string
	Jobs int64
}

// Size of the drawing.
const (
	endsHeight = 110
	endsWidth  = 960 // total width
)

func newBarChart(kinds []kindOfEnd, daily bool) barChart {
	return barChart{Kinds: kinds, Height: endsHeight, Width: endsWidth, Most: 1, Daily: daily}
}

// add adds a bucket.
func (d *barChart) add(col column) {
	for kind, n := range col.By {
		col.Sum += n
		d.Kinds[kind].Jobs += n
	}
	d.Most = max(d.Most, col.Sum)
	d.Columns = append(d.Columns, col)
}

// draw positions the parts.
func (d *barChart) draw() {
	step, marked := d.Step(), max(1, len(d.Columns)/10)
	for i := range d.Columns {
		col := &d.Columns[i]
		col.X = i * step
		top := d.Height
		for kind, n := range col.By {
			if n == 0 {
				continue
			}
			height := max(2, int(n*int64(d.Height)/d.Most))
			top -= height
			col.Parts = append(col.Parts, part{Y: top, Height: height, Kind: d.Kinds[kind].Kind})
		}
		at := col.From.UTC().Format("15:04 UTC")
		switch {
		case d.Daily:
			at = strings.TrimSuffix(col.From.UTC().Format("Mon 2 Jan, 15:04 UTC"), ", 00:00 UTC")
			if i%marked == 0 {
				col.Mark = col.From.UTC().Format("2 Jan")
			}
		case col.From.UTC().Hour()%3 == 0:
			col.Mark = col.From.UTC().Format("15:04")
		}
		col.Title = at + ": " + d.title(*col)
	}
}

// title describes a column.
func (d *barChart) title(col column) string {
	if col.Uncounted {
		return "not counted"
	}
	parts := []string{count(int(col.Sum), "job") + " ended"}
	for kind, n := range col.By {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", d.Kinds[kind].Name, n))
		}
	}
	return strings.Join(parts, ", ")
}

// Step is the width of a column.
func (d *barChart) Step() int { return d.Width / max(1, len(d.Columns)) }

// Bar is the width of a bar.
func (d *barChart) Bar() int { return d.Step() * 7 / 10 }

// Seen returns the columns with outcomes, newest first.
func (d *barChart) Seen() []column {
	seen := slices.DeleteFunc(slices.Clone(d.Columns), func(c column) bool { return c.Sum == 0 })
	slices.Reverse(seen)
	return seen
}
