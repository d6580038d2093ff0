package rules

// turns is how many steps there are once those with every are written out.
func (d Document) turns() int {
	if d.silent() {
		return 1
	}
	n := 0
	for i := range d.Escalate {
		n += d.turnsOf(i)
	}
	return n
}

// turnsOf is how often the i-th step is taken, if nobody acknowledges.
func (d Document) turnsOf(i int) int {
	if d.Escalate[i].Until != "" {
		return d.nagging(i)
	}
	return max(1, min(d.Escalate[i].Times, MaxTurns))
}

// nagging is how often the i-th step is taken that is repeated until somebody acknowledges: as
// often as all steps together may be, and no further ahead than the horizon, as far as that is
// written out.
func (d Document) nagging(i int) int {
	most := MaxTurns
	var before Duration
	for j, s := range d.Escalate {
		if s.Until == "" {
			most -= d.turnsOf(j)
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
