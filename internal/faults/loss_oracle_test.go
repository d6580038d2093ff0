package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Lost checks a system at rest in which orders are created and never shipped, and the stream loses some of the events:
// the other events led to the jobs that the rules require, and alerts report the number of lost events.
func (c *Checker) Lost(ctx context.Context, source string, acknowledged []string) (lost int, err error) {
	applied, err := c.applied(ctx, acknowledged)
	if err != nil {
		return 0, err
	}
	breaches, err := c.outcomeBreaches(ctx, applied)
	if err != nil {
		return 0, err
	}
	reported, err := c.gapAlerts(ctx, source)
	if err != nil {
		return 0, err
	}
	count := 0
	for _, s := range reported {
		count += s.Count
	}
	if lost = len(acknowledged) - len(applied); lost != count {
		breaches = append(breaches, fmt.Sprintf("P1: stream %s lost %d of %d events before they were applied, and alerts report %d", source, lost, len(acknowledged), count))
	}
	return lost, join(breaches)
}

// CheckRecreated checks a system at rest in which the stream was deleted and recreated, and none of the lost events is a
// shipment: the applied events and all events of the new stream led to the jobs that the rules require, and an alert
// reports that the stream was recreated.
func (c *Checker) CheckRecreated(ctx context.Context, source string, acknowledged []string) (lost int, err error) {
	there, err := c.Events(ctx, []string{source})
	if err != nil {
		return 0, err
	}
	gone := slices.DeleteFunc(slices.Clone(acknowledged), func(id string) bool {
		return slices.ContainsFunc(there, func(e Event) bool { return e.ID == id })
	})
	applied, err := c.applied(ctx, gone)
	if err != nil {
		return 0, err
	}
	breaches, err := c.outcomeBreaches(ctx, slices.Concat(applied, there))
	if err != nil {
		return 0, err
	}
	reported, err := c.gapAlerts(ctx, source)
	if err != nil {
		return 0, err
	}
	if len(reported) == 0 {
		breaches = append(breaches, fmt.Sprintf("P1: stream %s was recreated, and no alert reports it", source))
	}
	return len(gone) - len(applied), join(breaches)
}

// applied returns the events whose keys have jobs.
func (c *Checker) applied(ctx context.Context, ids []string) (applied []Event, err error) {
	there, err := c.jobs(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for j := range there {
		known[j.key] = true
	}
	for _, id := range ids {
		subject, key, _ := strings.Cut(id, "/")
		if known[key] {
			applied = append(applied, Event{ID: id, Subject: subject, Key: key})
		}
	}
	return applied, nil
}

// gapAlerts returns the alerts about unread events of a stream.
func (c *Checker) gapAlerts(ctx context.Context, source string) ([]PublishedAlert, error) {
	published, err := c.Stream(ctx)
	return slices.DeleteFunc(published, func(s PublishedAlert) bool { return s.Rule != own || s.Source != source || s.Step != "lost" }), err
}
