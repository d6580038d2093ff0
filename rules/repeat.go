package rules

// stepCount returns the number of steps, with each repetition of every counted.
func (d Document) stepCount() int {
	if d.hasNoText() {
		return 1
	}
	n := 0
	for i := range d.Escalate {
		n += d.repeatCount(i)
	}
	return n
}

// repeatCount returns how often the i-th step is taken, unless a user acknowledges.
func (d Document) repeatCount(i int) int {
	if d.Escalate[i].Until != "" {
		return d.ackRepeatCount(i)
	}
	return max(1, min(d.Escalate[i].Times, MaxTurns))
}

// ackRepeatCount returns how often the i-th step is taken if it is repeated until a user acknowledges: at most as often
// as all steps together may be, and no further ahead than the horizon, as far as the times are literal.
func (d Document) ackRepeatCount(i int) int {
	most := MaxTurns
	var before Duration
	for j, s := range d.Escalate {
		if s.Until == "" {
			most -= d.repeatCount(j)
		}
		if j < i {
			before = max(before, s.After.Fixed)
		}
	}
	if every := d.Escalate[i].Every; every > 0 {
		most = int(min(Duration(most), (d.Guards.Horizon-before)/every))
	}
	return max(1, most)
}
