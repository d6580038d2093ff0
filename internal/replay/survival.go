package replay

import (
	"cmp"
	"slices"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
)

// observation is the life of one job, as far as the replay saw it.
type observation struct {
	since, end time.Time
	ended      bool // at end; otherwise it was pending then, or the rule gave it up
	pauses     []checks.Pause
}

func newObservation(j futurejobs.Job, end time.Time, ended bool) observation {
	return observation{j.Since, end, ended, j.Pauses}
}

// ageAt returns the age of the job at the last slot before its end, or before the end of a part: a step is raised if its
// time has passed by then. Only open time of the calendar outside of pauses counts.
func (o observation) ageAt(until time.Time, of *calendars.Calendar, grid futurejobs.Grid) age {
	end, ended := o.end, o.ended
	if end.After(until) {
		end, ended = until, false
	}
	last := grid.Up(end).Add(-time.Duration(grid))
	span := of.Between(o.since, last)
	for _, p := range o.pauses {
		from, to := p.From, p.To
		if from.Before(o.since) {
			from = o.since
		}
		if to.IsZero() || to.After(last) {
			to = last
		}
		span -= of.Between(from, to)
	}
	return age{max(0, span), ended}
}

// age is the age of a job at its last slot; without an end, the job was pending for at least that long.
type age struct {
	time.Duration
	ended bool
}

// survival is the share of jobs that are still pending after a time, by the estimator of Kaplan and Meier. Jobs without an
// end count as pending for longer than their age: they are neither left out nor assumed to stay pending.
type survival struct {
	ages  []age // ascending; of the same time, ends precede jobs without an end
	share []float64
}

func newSurvival(ages []age) survival {
	s := survival{ages: slices.Clone(ages), share: make([]float64, len(ages))}
	slices.SortFunc(s.ages, func(a, b age) int {
		if a.Duration == b.Duration && a.ended != b.ended {
			if a.ended {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Duration, b.Duration)
	})
	left := 1.0
	for i := 0; i < len(s.ages); {
		same := i
		for same < len(s.ages) && s.ages[same].Duration == s.ages[i].Duration && s.ages[same].ended {
			same++
		}
		if same > i {
			left *= 1 - float64(same-i)/float64(len(s.ages)-i)
		}
		same = max(same, i+1)
		for ; i < same; i++ {
			s.share[i] = left
		}
	}
	return s
}

// after returns the share of jobs that are pending after a time. known is false beyond the last age, unless all jobs ended.
func (s survival) after(at time.Duration) (share float64, known bool) {
	i, _ := slices.BinarySearchFunc(s.ages, at, func(a age, at time.Duration) int {
		if a.Duration <= at {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 1, len(s.ages) > 0
	}
	return s.share[i-1], i < len(s.ages) || s.ages[i-1].ended || s.ages[i-1].Duration == at
}

// reached returns the share of jobs that reach an age: a step after that time alerts on them.
func (s survival) reached(at time.Duration) (share float64, known bool) { return s.after(at - 1) }

// rounding is more than the error of a computed share.
const rounding = 1e-9

// least returns the first time after which at most the share of jobs is pending; ok is false if there is none.
func (s survival) least(share float64) (at time.Duration, ok bool) {
	for i, left := range s.share {
		if left <= share+rounding {
			return s.ages[i].Duration, true
		}
	}
	return 0, false
}

// undecided counts the jobs for which it is unknown whether they are pending after a time.
func (s survival) undecided(at time.Duration) (n int64) {
	for _, a := range s.ages {
		if !a.ended && a.Duration < at {
			n++
		}
	}
	return n
}
