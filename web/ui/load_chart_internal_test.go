package ui

import (
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// noon is the time of the charts.
var noon = time.Date(2026, 11, 21, 12, 5, 0, 0, time.UTC)

// loadAround returns a load around noon with slots at offsets from noon.
func loadAround(parts map[time.Duration]web.Slot) web.Slots {
	from := noon.Add(-chartBack).Truncate(chartGrid)
	slots := web.Slots{From: from, To: from.Add(chartSpan), Bucket: chartBucket.Seconds(), Items: make([]web.Slot, chartSpan/chartBucket)}
	for i := range slots.Items {
		slots.Items[i].From = from.Add(time.Duration(i) * chartBucket)
	}
	for after, s := range parts {
		at := noon.Truncate(chartBucket).Add(after)
		s.From = at
		slots.Items[at.Sub(from)/chartBucket] = s
	}
	return slots
}

// bars returns the bars of a kind.
func (d *chart) bars(kind string) (of []bar) {
	for _, b := range d.Bars {
		if b.Kind == kind {
			of = append(of, b)
		}
	}
	return of
}

// TestLoadChartMarksSpike checks that a spike is highlighted and described, and that small bars beside it stay visible.
func TestLoadChartMarksSpike(t *testing.T) {
	d := draw(loadAround(map[time.Duration]web.Slot{
		-time.Hour: {Checks: 40, Alerts: 2}, time.Hour: {Planned: 30}, 3 * time.Hour: {Planned: 99_000, Ticks: 1000},
	}), noon)
	planned := d.bars("planned")
	if len(planned) != 2 || planned[1].Height != barHeight || planned[1].Y != 0 || planned[0].Height != 2 || len(d.bars("past")) != 1 {
		t.Errorf("drawn: %+v", d.Bars)
	}
	if d.Herd == nil || d.Herd.Jobs != 100_000 || !d.Herd.From.Equal(noon.Truncate(chartBucket).Add(3*time.Hour)) || d.Herd.Until.Sub(d.Herd.From) != chartBucket {
		t.Errorf("the herd: %+v", d.Herd)
	}
	if d.Most != "100,000" || d.Half != "50,000" || d.Summary != "40 checked, 100,030 planned" {
		t.Errorf("the text is %q, and the axis %q and %q", d.Summary, d.Most, d.Half)
	}
	u, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := u.templates["health.html"].ExecuteTemplate(&page, "content", &healthView{Load: d}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{">100,000 checks and ticks</a> are due", "<code>spread</code>", "<code>?</code> in place of its minute"} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("the page does not contain %q", part)
		}
	}
}

// TestLoadChartShowsTicks checks that applied ticks are drawn with the checks, and that missed and late ones are described.
func TestLoadChartShowsTicks(t *testing.T) {
	d := draw(loadAround(map[time.Duration]web.Slot{
		-2 * time.Hour: {Applied: 30, Missed: 7, MaxDelay: 90}, -time.Hour: {Checks: 20, Applied: 40, MaxLateness: 1}, time.Hour: {Ticks: 60},
	}), noon)
	past := d.bars("past")
	if len(past) != 2 || past[0].Height != barHeight/2 || past[1].Height != barHeight || !strings.HasSuffix(past[0].Title, "30 ticks, 7 missed ticks") {
		t.Errorf("drawn: %+v", past)
	}
	if d.Summary != "20 checked, 70 ticks, 60 planned, 7 missed ticks, at most 1 m 30 s late" || len(d.Latenesses) != 1 {
		t.Errorf("the text is %q, late are %+v", d.Summary, d.Latenesses)
	}
	if len(d.Rows) != 3 || d.Rows[0].Ticks != 30 || d.Rows[0].Missed != 7 || d.Rows[1].Ticks != 40 {
		t.Errorf("rows: %+v", d.Rows)
	}
}

// TestLoadChartWithoutSpike checks that neither an empty nor an evenly high load has a spike.
func TestLoadChartWithoutSpike(t *testing.T) {
	if d := draw(loadAround(nil), noon); d.Herd != nil || len(d.Bars)+len(d.Latenesses)+len(d.Rows) != 0 || d.Summary != "0 checked, 0 planned" {
		t.Errorf("nothing: %+v", d)
	}
	even := make(map[time.Duration]web.Slot)
	for i := range 40 {
		even[time.Duration(i)*chartBucket] = web.Slot{Planned: 5000 + int64(i)}
	}
	if d := draw(loadAround(even), noon); d.Herd != nil {
		t.Errorf("an even load is a herd: %+v", d.Herd)
	}
	if d := draw(loadAround(map[time.Duration]web.Slot{time.Hour: {Planned: 12}}), noon); d.Herd != nil {
		t.Errorf("a dozen is a herd: %+v", d.Herd)
	}
}

// TestLoadChartShowsOverdue checks that overdue checks differ from planned ones, and that late ones are visible.
func TestLoadChartShowsOverdue(t *testing.T) {
	d := draw(loadAround(map[time.Duration]web.Slot{
		-2 * time.Hour: {Checks: 100, Alerts: 7, MaxLateness: 190}, -time.Hour: {Checks: 50, Planned: 50, MaxLateness: 1}, 0: {Checks: 10, Planned: 20},
	}), noon)
	over := d.bars("overdue")
	if len(over) != 1 || over[0].Y+over[0].Height != barHeight/2 || !strings.Contains(over[0].Title, "50 checks overdue") {
		t.Errorf("overdue: %+v, want what stands on the 50 that were checked", over)
	}
	if planned := d.bars("planned"); len(planned) != 1 || !strings.Contains(planned[0].Title, "20 checks planned") {
		t.Errorf("planned in the part that is now: %+v", planned)
	}
	for want, slot := range map[string]web.Slot{"2 checks, 30 ticks planned": {Planned: 2, Ticks: 30}, ": 1 tick planned": {Ticks: 1}} {
		bars := draw(loadAround(map[time.Duration]web.Slot{time.Hour: slot}), noon)
		if planned := bars.bars("planned"); len(planned) != 1 || !strings.HasSuffix(planned[0].Title, want) {
			t.Errorf("planned checks and ticks: %+v, want %q", planned, want)
		}
	}
	for _, past := range d.bars("past") {
		if end := past.X + past.Width; past.X < d.Now && end > d.Now || past.X >= d.Now {
			t.Errorf("a bar of the past is from %d to %d, now is at %d", past.X, end, d.Now)
		}
	}
	if planned := d.bars("planned"); planned[0].X < d.Now || planned[0].Y+planned[0].Height != barHeight {
		t.Errorf("planned at %+v, now is at %d", planned[0], d.Now)
	}
	if len(d.Latenesses) != 1 || d.Latenesses[0].Height != lagHeight || d.Worst != "3 m 10 s" {
		t.Errorf("late: %+v, at worst %s", d.Latenesses, d.Worst)
	}
	if d.Summary != "160 checked, 20 planned, 50 overdue, at most 3 m 10 s late" {
		t.Errorf("the text is %q", d.Summary)
	}
	want := loadRow{From: noon.Truncate(time.Hour).Add(-2 * time.Hour), Checks: 100, Alerts: 7, MaxLateness: 190 * time.Second}
	if len(d.Rows) != 3 || d.Rows[0] != want || d.Rows[1].Over != 50 || d.Rows[2].Due != 20 || d.Rows[1].LagText() != "" {
		t.Errorf("by the hour: %+v", d.Rows)
	}
}

// TestLoadChartAxis checks that the axis has a label every three hours, and the present at its position.
func TestLoadChartAxis(t *testing.T) {
	d := draw(loadAround(nil), noon)
	if len(d.Hours) != 9 || len(d.Ticks) != 9 || d.Hours[2].Hour() != 12 || d.Ticks[2] != 2*12*barStep || d.Width != 108*barStep {
		t.Errorf("hours %v at %v of %d", d.Hours, d.Ticks, d.Width)
	}
	if d.Now != d.Ticks[2]+barStep/3 {
		t.Errorf("now is at %d, and noon at %d", d.Now, d.Ticks[2])
	}
}

func TestFigures(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -5: "-5"} {
		if got := number(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0 s", 1600 * time.Millisecond: "2 s", 61 * time.Second: "1 m 1 s", 10*time.Minute + time.Second: "10 m", 3 * time.Hour: "3 h", 49*time.Hour + time.Minute: "2 d 1 h",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
	for want, numbers := range map[string][]int16{"": nil, "3": {3}, "0–2, 5, 7–8": {0, 1, 2, 5, 7, 8}} {
		if got := ranges(numbers); got != want {
			t.Errorf("%v: %s", numbers, got)
		}
	}
}
