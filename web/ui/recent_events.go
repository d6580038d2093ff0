package ui

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// recent is a past trigger event for a preview.
type recent struct {
	Key, Event string
	Subject    string // subject in the preview
	At         time.Time
}

// Fill returns the values of the form's fields as JSON.
func (r recent) Fill() (string, error) {
	text, err := json.Marshal(map[string]string{"event": r.Event, "subject": r.Subject, "at": r.At.UTC().Format(localTime)})
	return string(text), err
}

// recentMost is the number of events offered.
const recentMost = 8

// recent returns trigger events of a rule's pending jobs and of its alerts. Schedules have no trigger events.
func (c client) recent(rule string, d document.Document) (all []recent, err error) {
	if d.Trigger.Schedule != "" {
		return nil, nil
	}
	var jobs web.Page[web.Job]
	if err := c.get("/jobs", url.Values{"rule": {rule}, "limit": {fmt.Sprint(recentMost / 2)}}, &jobs); err != nil {
		return nil, err
	}
	add := func(key string, event json.RawMessage, at time.Time) {
		known := func(r recent) bool { return r.Key == key }
		if r, is := recentOf(key, event, at, d); is && len(all) < recentMost && !slices.ContainsFunc(all, known) {
			all = append(all, r)
		}
	}
	for _, listed := range jobs.Items {
		var j web.Job
		is, err := exists(c.get("/jobs/"+url.PathEscape(rule), url.Values{"key": {listed.Key}}, &j))
		if err != nil {
			return all, err
		}
		if is { // it has not ended meanwhile
			add(j.Key, j.Event, j.CreatedAt)
		}
	}
	var page web.Page[web.Alert]
	if err := c.get("/alerts", url.Values{"rule": {rule}, "limit": {"50"}}, &page); err != nil {
		return all, err
	}
	for _, a := range page.Items {
		add(a.Key, a.Event, a.Since)
	}
	return all, nil
}

// recentOf returns the trigger event of a job for a preview. It returns false if the job has none, as with a
// heartbeat never received, or if the event is too large for a form.
func recentOf(key string, event json.RawMessage, at time.Time, d document.Document) (recent, bool) {
	if event == nil || len(event) > futurejobs.ListedMost {
		return recent{}, false
	}
	r := recent{Key: key, Event: indented(event), Subject: sampleSubject(d.Trigger), At: at}
	p, is := pingOf(event, d)
	if !is {
		return r, true
	}
	p.Key = key
	text, err := json.MarshalIndent(p, "", "  ")
	r.Event = string(text)
	if d.Trigger.Heartbeat.Event != "" {
		r.Subject = pingSubject
	}
	return r, err == nil
}

// pingSubject is the subject of pings in the preview of a heartbeat that also takes events.
const pingSubject = "ping"

// ping is a ping in a preview. It has no run time, because a preview has no runs.
type ping struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	Exit *int   `json:"exit_status,omitempty"`
	Run  string `json:"run,omitempty"`
	Body string `json:"body,omitempty"`
}

// pingOf returns the ping in a trigger event, or false for other events. A stored ping does not include its key.
func pingOf(event json.RawMessage, d document.Document) (p ping, is bool) {
	if d.Trigger.Heartbeat == nil {
		return p, false
	}
	var of struct {
		Source string `json:"source"`
	}
	if json.Unmarshal(event, &of) != nil || of.Source != pingSubject {
		return p, false
	}
	return p, json.Unmarshal(event, &p) == nil
}
