package ui

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"deadman/web"
)

// dueJobs counts the due jobs that wait for a decision.
type dueJobs struct {
	Count  int
	More   bool      // more than were counted
	Oldest time.Time // the earliest slot
}

// maxDueJobs bounds the due jobs that the overview counts.
const maxDueJobs = 500

// dueJobs counts the due jobs, if the oldest one is due for longer than a healthy node takes. next has the next jobs.
func (v *homeView) dueJobs(c client, next []job, now time.Time) error {
	isOld := func(j job) bool { return j.Status == "due" && now.Sub(j.NextCheckAt) > lagShown }
	i := slices.IndexFunc(next, isOld)
	if i < 0 {
		return nil
	}
	var page web.JobPage
	err := c.get("/jobs", url.Values{"due": {"true"}, "limit": {strconv.Itoa(maxDueJobs)}}, &page)
	v.Due = dueJobs{len(page.Items), page.Next != "", next[i].NextCheckAt}
	return err
}

func (v *homeView) jobs(c client, now time.Time) error {
	var page web.Page[web.Job]
	err := c.get("/jobs", url.Values{"limit": {nowJobs}}, &page)
	v.Jobs, v.MoreJobs = jobsOf(page.Items), page.Next != ""
	scheduled := slices.DeleteFunc(slices.Clone(v.Jobs), func(j job) bool { return j.NextCheckAt.IsZero() && j.PausedAt.IsZero() })
	v.Resting = len(v.Jobs) - len(scheduled)
	v.Jobs = scheduled
	if err != nil {
		return err
	}
	return v.dueJobs(c, v.Jobs, now)
}
