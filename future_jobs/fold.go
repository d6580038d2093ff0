package futurejobs

import (
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// Net is what a run of effects comes to.
type Net struct {
	Create []Job      // new jobs, without an id
	End    []Decision // of jobs that were pending before
	Born   []Decision // of jobs that began and ended within the run: history only
	Kept   int        // triggers for keys that were waited for already
	Missed int        // ends for keys that nobody waited for
}

// Fold plays effects in their order over the jobs that are pending, and returns the net
// effect. now is the database's time.
//
//  1. A start for a key that is waited for is kept out: the first counts.
//  2. A start puts the first check on its slot, or on the first slot after now.
//  3. An end takes the job away, and closes what was said about it.
func Fold(effects []Effect, pending map[Ref]Job, now time.Time) Net {
	var net Net
	begun := make(map[Ref]int) // places in net.Create
	ended := make(map[Ref]bool)
	for _, e := range effects {
		ref := e.Job.Ref
		at, isNew := begun[ref]
		job, isOld := pending[ref]
		isOld = isOld && !ended[ref]

		switch {
		case e.Kind == Start && (isNew || isOld):
			net.Kept++
		case e.Kind == Start:
			begun[ref] = len(net.Create)
			net.Create = append(net.Create, e.begin(now))
		case e.Kind == End && isNew:
			net.Born = append(net.Born, Decision{Job: net.Create[at], Outcome: e.Outcome})
			net.Create[at].Key = "" // gone again; dropped below
			delete(begun, ref)
		case e.Kind == End && isOld:
			ended[ref] = true
			net.End = append(net.End, e.end(job, now))
		case e.Kind == End:
			net.Missed++
		}
	}
	net.Create = dropGone(net.Create)
	return net
}

func dropGone(jobs []Job) []Job {
	kept := jobs[:0]
	for _, j := range jobs {
		if j.Key != "" {
			kept = append(kept, j)
		}
	}
	return kept
}

// begin is the job that a Start makes.
func (e Effect) begin(now time.Time) Job {
	job := e.Job
	job.CreatedAt = now
	job.NextCheckAt = job.FirstCheckAt
	if !job.NextCheckAt.After(now) {
		job.NextCheckAt = e.Rule.Grid.After(now) // nothing is written behind the sweep
	}
	return job
}

// end is the decision that an End makes of a job.
func (e Effect) end(job Job, now time.Time) Decision {
	d := Decision{Job: job, Outcome: e.Outcome}
	if len(job.Alerts) == 0 || e.Close == nil {
		return d
	}
	said := e.Rule.say(job, 0, now, now, []alerts.Draft{e.Close(job)})
	said[0].Closes = job.Alerts
	d.Alerts = said
	d.Job.Alerts = append(job.Alerts[:len(job.Alerts):len(job.Alerts)], said[0].ID)
	return d
}

// Cancel is the effect of a person ending a job.
func Cancel(rule *Rule, ref Ref) Effect {
	e := Effect{Rule: rule, Kind: End, Job: Job{Ref: ref}, Outcome: checks.Cancelled}
	if rule.Closing != nil {
		e.Close = func(j Job) alerts.Draft { return rule.Closing(j, rule.Entity+" "+j.Key+": cancelled by hand") }
	}
	return e
}
