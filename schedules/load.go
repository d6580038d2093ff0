package schedules

import "time"

// Load counts ticks in parts of one width. Its zero value counts nothing.
type Load struct {
	from, until time.Time
	width       time.Duration

	Parts []int // the ticks of each part
}

// NewLoad counts from an instant until another, which is not counted, in parts of a width.
func NewLoad(from, until time.Time, width time.Duration) *Load {
	n := max(until.Sub(from)+width-1, 0) / width
	return &Load{from: from, until: until, width: width, Parts: make([]int, n)}
}

// Add adds the ticks of a schedule after an instant, times as often: one for each of its keys. The
// work grows with the ticks where they are rarer than the parts, and with the parts where they are not.
func (l *Load) Add(s Schedule, times int, after time.Time) {
	if before := l.from.Add(-1); after.Before(before) {
		after = before
	}
	if shortest := s.Shortest(); shortest > 0 && shortest < l.width {
		l.addEach(s, times, after)
		return
	}
	for tick, ok := s.Next(after); ok && tick.Before(l.until); tick, ok = s.Next(tick) {
		l.Parts[tick.Sub(l.from)/l.width] += times
	}
}

// addEach adds what each part has. Ticks are whole seconds.
func (l *Load) addEach(s Schedule, times int, after time.Time) {
	for i := range l.Parts {
		end := l.from.Add(time.Duration(i+1) * l.width)
		if end.After(l.until) {
			end = l.until
		}
		if end = end.Add(-1); end.After(after) {
			n, _ := s.Between(after, end)
			l.Parts[i] += n * times
			after = end
		}
	}
}
