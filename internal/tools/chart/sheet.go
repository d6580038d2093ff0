package chart

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Sheet is a picture of small charts over the same time.
type Sheet struct {
	Title, Note string
	Span        float64 // seconds
	Events      []Event
	Panels      []Panel
}

// Event is a time in which something happened, in seconds. Each panel has a band for it, with the number of the event.
type Event struct {
	Name       string
	Begin, End float64
}

// The measures of a sheet, in pixels.
const (
	sheetWidth   = 900.0
	sheetColumns = 3
	sheetMargin  = 14.0
	cellGap      = 14.0
	cellWidth    = (sheetWidth - 2*sheetMargin - (sheetColumns-1)*cellGap) / sheetColumns
	eventRow     = 17.0
	legendRow    = 14.0
	letterWidth  = 5.9 // of a text, on average
)

// cell is the SVG of a panel with its place.
type cell struct {
	X, Y  float64
	Chart string
}

// Draw returns the sheet as SVG. It fails without panels or without a span.
func (s Sheet) Draw() ([]byte, error) {
	if len(s.Panels) == 0 || s.Span <= 0 {
		return nil, fmt.Errorf("the sheet %q has %d panels over %.0f seconds", s.Title, len(s.Panels), s.Span)
	}
	type keyed struct {
		X, Y float64
		Event
		Number int
		When   string
	}
	drawn := struct {
		Sheet
		Width, Height float64
		Key           []keyed
		Cells         []cell
	}{Sheet: s, Width: sheetWidth}
	y := 60.0
	rows := (len(s.Events) + sheetColumns - 1) / sheetColumns
	for i, e := range s.Events {
		x := sheetMargin + float64(i/rows)*(cellWidth+cellGap)
		drawn.Key = append(drawn.Key, keyed{x, y + eventRow*float64(i%rows) + 8, e, i + 1, clock(e.Begin) + " to " + clock(e.End)})
	}
	y += float64(rows)*eventRow + 12
	for i := 0; i < len(s.Panels); i += sheetColumns {
		height := 0.0
		for j, p := range s.Panels[i:min(i+sheetColumns, len(s.Panels))] {
			chart, tall := p.draw(s)
			drawn.Cells = append(drawn.Cells, cell{sheetMargin + float64(j)*(cellWidth+cellGap), y, chart})
			height = max(height, tall)
		}
		y += height + cellGap
	}
	drawn.Height = y
	var out bytes.Buffer
	err := sheetSVG.Execute(&out, drawn)
	return out.Bytes(), err
}

// clock formats seconds such as 1:30, in minutes and seconds.
func clock(seconds float64) string {
	whole := int(math.Round(seconds))
	return fmt.Sprintf("%d:%02d", whole/60, whole%60)
}

// ticks returns the marks of a time of some seconds, with their texts.
func ticks(span float64) (at []float64, texts []string) {
	step, unit, name := 0.0, 60.0, "min"
	for _, step = range []float64{10, 20, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400} {
		if span/step <= 6 {
			break
		}
	}
	switch {
	case step < 60:
		unit, name = 1, "s"
	case step >= 3600:
		unit, name = 3600, "h"
	}
	for n := 0.0; n <= span*1.001; n += step {
		at, texts = append(at, n), append(texts, fmt.Sprintf("%.0f", n/unit))
	}
	texts[len(texts)-1] += " " + name
	return at, texts
}

// widthOf estimates the pixels of a text.
func widthOf(text string) float64 { return letterWidth * float64(utf8.RuneCountInString(text)) }

// cut shortens a text to some pixels.
func cut(text string, width float64) string {
	if letters := int(width / letterWidth); utf8.RuneCountInString(text) > letters {
		return strings.TrimRight(string([]rune(text)[:letters-1]), " ,") + "…"
	}
	return text
}

var sheetSVG = newSVG(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" role="img" aria-label="{{html .Title}}">
{{template "style" 11}}<style>
.head { font-weight: 600; font-size: 12px; fill: #1f2328 }
.no { font-size: 9px; text-anchor: middle }
@media (prefers-color-scheme: dark) { .head { fill: #f0f6fc } }
</style>
<rect class="page" width="{{.Width}}" height="{{.Height}}" rx="6"/>
<text class="title" x="14" y="28">{{html .Title}}</text>
<text x="14" y="47">{{html .Note}}</text>
{{range .Key}}<rect class="band" x="{{.X}}" y="{{printf "%.0f" .Y}}" width="14" height="13"/><text class="no" x="{{.X}}" y="{{printf "%.0f" .Y}}" dx="7" dy="10">{{.Number}}</text><text x="{{.X}}" y="{{printf "%.0f" .Y}}" dx="20" dy="10">{{html .Name}}, {{.When}}</text>
{{end}}{{range .Cells}}<g transform="translate({{printf "%.0f" .X}} {{printf "%.0f" .Y}})">
{{.Chart}}</g>
{{end}}</svg>
`)
