package rules

// stepCount is how many steps there are once those with every are written out.
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

// repeatCount is how often the i-th step is taken, if nobody acknowledges.
func (d Document) repeatCount(i int) int {
	if d.Escalate[i].Until != "" {
		return d.ackRepeatCount(i)
	}
	return max(1, min(d.Escalate[i].Times, MaxTurns))
}

// ackRepeatCount is how often the i-th step is taken that is repeated until somebody acknowledges: as
// often as all steps together may be, and no further ahead than the horizon, as far as that is
// written out.
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
