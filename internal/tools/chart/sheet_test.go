package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// steady returns a series with a value every 5 seconds, except within a gap.
func steady(name string, value, from, to float64) Series {
	s := Series{Name: name}
	for at := 0.0; at <= 600; at += 5 {
		if at <= from || at >= to {
			s.Points = append(s.Points, At{at, value})
		}
	}
	return s
}

func draw(t *testing.T, s Sheet) string {
	t.Helper()
	svg, err := s.Draw()
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return string(svg)
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, svg)
		}
	}
}

func TestSheetShowsGapsAsGaps(t *testing.T) {
	s := steady("half", 3, 200, 300)
	s.Points[10][0] = s.Points[9][0] // a late value and the next in one second
	svg := draw(t, Sheet{Title: "a <sheet>", Span: 600, Panels: []Panel{{Title: "p & q", Lines: []Series{s}}}})
	line := regexp.MustCompile(`class="line c0" d="(M[^"]*L[^"]*)"`).FindStringSubmatch(svg)
	if len(line) < 2 || strings.Count(line[1], "M") != 2 {
		t.Errorf("a series with a gap is drawn as %q; want two parts", line)
	}
}

func TestSheetKeepsPeaks(t *testing.T) {
	s := steady("spike", 1, 600, 600)
	s.Points[60][1] = 90
	svg := draw(t, Sheet{Title: "s", Span: 600, Panels: []Panel{{Title: "p", Lines: []Series{s}}}})
	path := regexp.MustCompile(`class="line c0" d="(M[^"]*L[^"]*)"`).FindStringSubmatch(svg)[1]
	high := plotTop + plotHeight
	for _, at := range regexp.MustCompile(`[ML][0-9.]+ ([0-9.]+)`).FindAllStringSubmatch(path, -1) {
		y, err := strconv.ParseFloat(at[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		high = min(high, y)
	}
	if high > plotTop+plotHeight*0.3 { // 90 of an axis up to 100
		t.Errorf("a peak of one value reaches %.1f px from the top: %s", high, path)
	}
	if n := strings.Count(path, "L"); n > 8 {
		t.Errorf("a steady line with a peak has %d parts: %s", n, path)
	}
}

func TestSheetNamesWhatItDoesNotDraw(t *testing.T) {
	lines := []Series{steady("quiet", 0, 600, 600)}
	for i := range 9 {
		lines = append(lines, steady("line-"+strconv.Itoa(i), float64(i+1), 600, 600))
	}
	svg := draw(t, Sheet{Title: "s", Span: 600, Panels: []Panel{
		{Title: "many", Unit: "ops", Lines: lines},
		{Title: "none"},
		{Title: "states", States: true, Lines: []Series{steady("good", 0, 600, 600), steady("broken", 1, 600, 600)}},
	}})
	for _, want := range []string{"always 0: quiet", ">line-8<", "3 smaller: line-0, line-1, line-2", "no values", "always fine: good", ">broken<", " /s<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture does not have %q:\n%s", want, svg)
		}
	}
	if strings.Contains(svg, ">line-2<") {
		t.Error("more lines than colours are drawn")
	}
}

func TestSheetMarksEvents(t *testing.T) {
	svg := draw(t, Sheet{Title: "s", Span: 600, Events: []Event{{"a stop", 90, 150}}, Panels: []Panel{{Title: "p"}}})
	if !strings.Contains(svg, "a stop, 1:30 to 2:30") || strings.Count(svg, ">1</text>") < 2 {
		t.Errorf("the event is not in the key and on the panel:\n%s", svg)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		unit  string
		value float64
		want  string
	}{{"s", 0.25, "250 ms"}, {"s", 0, "0 s"}, {"bytes", 2.5e8, "250 MB"}, {"ops", 1500, "1.5 k /s"}, {"percentunit", 0.4, "40 %"}, {"", 3, "3"}} {
		if got := (Panel{Unit: c.unit}).format()(c.value); got != c.want {
			t.Errorf("%v of the unit %q is written %q; want %q", c.value, c.unit, got, c.want)
		}
	}
}
