package ui

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// outcomeChart draws the outcomes of jobs over time: a bar per bucket with a part per kind of outcome. Its units are
// those of the drawing.
type outcomeChart struct {
	Columns []column
	Kinds   []kindOfEnd
	Width   int
	Height  int   // height of the tallest bar
	Most    int64 // value of the tallest bar
	Summary string
	web.Outcomes
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

// kindsOfEnds returns the kinds in the order of a bar, from the bottom.
func kindsOfEnds() []kindOfEnd {
	return []kindOfEnd{{Kind: "good", Name: "resolved"}, {Kind: "neutral", Name: "cancelled"}, {Kind: "unheard", Name: "unresolved"}, {Kind: "bad", Name: "gave up"}}
}

// kindOf returns the index of an outcome's kind.
func kindOf(o checks.Outcome) int {
	switch outcome(o) {
	case "waiting":
		return 1
	case "open":
		return 2
	case "error":
		return 3
	}
	return 0
}

// outcomes reads the outcomes of jobs and draws them.
func (c client) outcomes(l listing, bucket string) (*outcomeChart, error) {
	query := url.Values{"bucket": {bucket}}
	for _, name := range []string{"rule", "entity"} {
		if value := l.Filter[name]; value != "" {
			query.Set(name, value)
		}
	}
	d := &outcomeChart{Kinds: kindsOfEnds(), Height: endsHeight, Width: endsWidth, Most: 1}
	if err := c.get("/history/outcomes", query, &d.Outcomes); err != nil {
		return nil, err
	}
	d.count(l)
	d.draw()
	return d, nil
}

// count sums the outcomes per bucket and in total.
func (d *outcomeChart) count(l listing) {
	all := int64(0)
	for _, item := range d.Items {
		col := column{From: item.From, By: make([]int64, len(d.Kinds))}
		for name, n := range item.Outcomes {
			if wanted := l.Filter["outcome"]; wanted != "" && name != wanted {
				continue
			}
			kind := kindOf(checks.Outcome(name))
			col.By[kind], col.Sum = col.By[kind]+n, col.Sum+n
			d.Kinds[kind].Jobs += n
		}
		to := item.From.Add(time.Duration(d.Bucket) * time.Second)
		narrowed := listing{At: l.At, Filter: maps.Clone(l.Filter)}
		narrowed.Filter["ended_after"], narrowed.Filter["ended_before"] = item.From.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339)
		delete(narrowed.Filter, "within")
		col.At = narrowed.page("")
		d.Most, all = max(d.Most, col.Sum), all+col.Sum
		d.Columns = append(d.Columns, col)
	}
	d.Summary = d.sentence(l, all)
}

// sentence describes the scope of the bars. They cover all keys, even if the list is narrowed to one.
func (d *outcomeChart) sentence(l listing, all int64) string {
	text := count(int(all), "job")
	if rule := l.Filter["rule"]; rule != "" {
		text += " of rule " + escapeControls(rule)
	}
	if entity := l.Filter["entity"]; entity != "" {
		text += " of entity " + escapeControls(entity)
	}
	text += " ended"
	if outcome := l.Filter["outcome"]; outcome != "" {
		text += " as " + escapeControls(strings.ReplaceAll(outcome, "_", " "))
	}
	text += " in the last 24 hours"
	if d.byDay() {
		text = strings.TrimSuffix(text, "24 hours") + "14 days"
	}
	if l.Filter["key"] != "" {
		text += ", all keys"
	}
	return text
}

func (d *outcomeChart) byDay() bool { return d.Bucket >= futurejobs.Day.Seconds() }

// draw positions the parts.
func (d *outcomeChart) draw() {
	step := d.Width / max(1, len(d.Columns))
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
		case d.byDay():
			at = col.From.UTC().Format("Mon 2 Jan")
			col.Mark = col.From.UTC().Format("2 Jan")
		case col.From.UTC().Hour()%3 == 0:
			col.Mark = col.From.UTC().Format("15:04")
		}
		col.Title = at + ": " + d.title(*col)
	}
}

// title describes a column.
func (d *outcomeChart) title(col column) string {
	parts := []string{count(int(col.Sum), "job") + " ended"}
	for kind, n := range col.By {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", d.Kinds[kind].Name, n))
		}
	}
	return strings.Join(parts, ", ")
}

// Step is the width of a column.
func (d *outcomeChart) Step() int { return d.Width / max(1, len(d.Columns)) }

// Bar is the width of a bar.
func (d *outcomeChart) Bar() int { return d.Step() * 7 / 10 }

// Seen returns the columns with outcomes, newest first.
func (d *outcomeChart) Seen() []column {
	seen := slices.DeleteFunc(slices.Clone(d.Columns), func(c column) bool { return c.Sum == 0 })
	slices.Reverse(seen)
	return seen
}

// Partly reports whether older buckets are not counted yet.
func (d *outcomeChart) Partly() bool { return d.CountedFrom.After(d.From) }
