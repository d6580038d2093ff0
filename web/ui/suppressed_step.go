package ui

import (
	"net/url"
	"slices"

	"deadman/web"
)

// suppressedOf adds the steps that a pending job did not raise, because the alert was acknowledged. Only a single job has a
// trail, which a list leaves out.
func (v *alertView) suppressedOf(c client, listed web.Job) error {
	var j web.Job
	is, err := exists(c.get("/jobs/"+pathEscape(listed.Rule), url.Values{"key": {listed.Key}}, &j))
	if !is || !slices.Contains(j.Alerts, v.ID) {
		return err // nil: the job ended meanwhile
	}
	v.Story = append(v.Story, suppressedSteps(j)...)
	return nil
}

// suppressedOfEnded adds the suppressed steps of the ended job of the alert, if the history of the entity still has the job.
func (v *alertView) suppressedOfEnded(c client) error {
	var known web.Entity
	is, err := exists(c.get("/entities/"+pathEscape(v.Entity), url.Values{"key": {v.Key}}, &known))
	if !is {
		return err
	}
	for _, e := range known.History.Items {
		if slices.Contains(e.Alerts, v.ID) {
			v.Story = append(v.Story, suppressedSteps(e.Job)...)
			break
		}
	}
	return nil
}

// suppressedSteps returns an entry for each step that an acknowledgement suppressed, at the check that found the step due
// first. A step that is raised later, once the acknowledgement is over, has an alert as well.
func suppressedSteps(j web.Job) (all []alertEntry) {
	by := ""
	if len(j.Trail) > 0 && j.Acknowledged != nil && j.Acknowledged.At.Before(j.Trail[0].At) {
		by = j.Acknowledged.By // the trail is cut before the acknowledgement
	}
	named := map[string]bool{}
	for _, e := range j.Trail {
		switch {
		case e.Kind == "acknowledge":
			by = e.By
		case e.Suppressed && e.Step != "" && !named[e.Step]:
			named[e.Step] = true
			text := "suppressed: acknowledged"
			if by != "" {
				text += " by " + by
			}
			all = append(all, alertEntry{At: e.At, Kind: "noted", Step: e.Step, Text: text})
		}
	}
	return all
}
