package futurejobs

import (
	"math"
	"time"
)

// round is a series of reads of one shard from its low water, or from its beginning, up to a time. A round that skips
// very many waiting jobs continues in later sweeps, so that newly due jobs need not wait for its end.
type round struct {
	startedAt time.Time // zero: no round is open
	at        position  // the position of the round
	recent    position  // the position of reads of jobs that became due since its start, or since the low water before it
}

func (r round) isOpen() bool { return !r.startedAt.IsZero() }

// parking marks jobs of one rule behind the low water of a shard that have to wait: for their streams, for a source,
// or until their version is readable. A round of reads does not cover them, and they are not listed one by one: jobs
// that wait for a stream are read once the stream is read further, up to that time.
//
// Jobs are parked by rule and not by version, since a change of the rule may give a job another version.
type parking struct {
	from    position // before the first of them
	added   position // before the first job parked since a read of them began; zero: none
	isReady bool     // some of them need not wait, for example an unsettled one
	isRead  bool     // a read of them is running
}

// parkings holds the parked jobs of a shard, by rule. The shard's mutex guards it.
type parkings map[int32]*parking

// beginning is before all slots.
var beginning = time.Unix(0, 0).UTC()

// park parks the jobs of a rule after a position.
func (ps parkings) park(rule int32, from position) *parking {
	if from.at.Before(beginning) {
		from.at = beginning
	}
	p := ps[rule]
	if p == nil {
		p = &parking{from: from}
		ps[rule] = p
	}
	if from.isBefore(p.from) {
		p.from = from
	}
	if p.added.at.IsZero() || from.isBefore(p.added) {
		p.added = from
	}
	return p
}

// beginRead begins a read of the parked jobs of some rules that are due by until, and returns the position before the
// first of them; zero: none. With onlyReady, rules without a ready job are left out.
func (ps parkings) beginRead(rules []int32, until time.Time, onlyReady bool, lowWater position) (from position) {
	for _, rule := range rules {
		p := ps[rule]
		if p == nil || onlyReady && !p.isReady || p.from.at.After(until) || !p.from.isBefore(lowWater) {
			continue
		}
		from = first(from, p.from)
		p.added, p.isReady, p.isRead = position{}, false, true
	}
	return from
}

// endRead records the position of a read. Jobs parked meanwhile stay parked.
func (ps parkings) endRead(rules []int32, to, lowWater position) {
	for _, rule := range rules {
		p := ps[rule]
		if p == nil || !p.isRead {
			continue
		}
		if p.isRead = false; p.from.isBefore(to) {
			p.from = to
		}
		if p.from = first(p.from, p.added); !p.from.isBefore(lowWater) {
			delete(ps, rule)
		}
	}
}

// first returns the first of the given position and the parked jobs.
func (ps parkings) first(low position) position {
	for _, p := range ps {
		low = first(low, p.from)
	}
	return low
}

// endOf returns the position after all jobs due by a time, as far as no transaction can still add to them.
func endOf(until, now time.Time) position {
	if settled := now.Add(-maxTxDelay); until.After(settled) {
		return position{at: settled}
	}
	return position{at: until, id: math.MaxInt64}
}
