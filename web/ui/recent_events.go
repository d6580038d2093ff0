package ui

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/web"
)

// recent is an event that began a wait a while ago, as a trial takes it.
type recent struct {
	Key, Event string
	Subject    string // what it comes on, as a trial has it
	At         time.Time
}

// Fill is what the fields of the form become.
func (r recent) Fill() (string, error) {
	text, err := json.Marshal(map[string]string{"event": r.Event, "subject": r.Subject, "at": r.At.UTC().Format(localTime)})
	return string(text), err
}

// recentMost is how many events are offered.
const recentMost = 8

// recent are events that began waits of a rule: of those that go on, and of those that something
// was said about. A tick is no event.
func (c client) recent(rule string, d rules.Document) (all []recent, err error) {
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
		if is { // and did not end this moment
			add(j.Key, j.Event, j.CreatedAt)
		}
	}
	var said web.Page[web.Alert]
	if err := c.get("/alerts", url.Values{"rule": {rule}, "limit": {"50"}}, &said); err != nil {
		return all, err
	}
	for _, a := range said.Items {
		add(a.Key, a.Event, a.Since)
	}
	return all, nil
}

// recentOf is what a wait began with, as a trial takes it; false: with nothing, as where no beat ever came, or with more than a
// form should have.
func recentOf(key string, event json.RawMessage, at time.Time, d rules.Document) (recent, bool) {
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

// pingSubject is what a ping comes on in a trial of a heartbeat that events are beats of, too.
const pingSubject = "ping"

// ping is a ping as a trial takes it. How long its run took is not said: the trial knows of no run.
type ping struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	Exit *int   `json:"exit_status,omitempty"`
	Run  string `json:"run,omitempty"`
	Body string `json:"body,omitempty"`
}

// pingOf is the ping that a wait of a heartbeat began with; false: it was another event. What a wait
// knows of a ping does not name its key.
func pingOf(event json.RawMessage, d rules.Document) (p ping, is bool) {
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
