package faults

import (
	"context"
	"fmt"
	"strings"
)

// Lost checks on a system at rest in which orders are created and never shipped, and the source loses some of the
// events: what is not lost led to the jobs that the rules ask for, and alerts report how much is lost.
func (c *Checker) Lost(ctx context.Context, source string, acknowledged []string) (lost int, err error) {
	there, err := c.jobs(ctx)
	if err != nil {
		return 0, err
	}
	said, err := c.Stream(ctx)
	if err != nil {
		return 0, err
	}
	known := map[string]bool{}
	for j := range there {
		known[j.key] = true
	}
	var applied []Event
	for _, id := range acknowledged {
		subject, key, _ := strings.Cut(id, "/")
		if known[key] {
			applied = append(applied, Event{ID: id, Subject: subject, Key: key})
		}
	}
	breaches, err := c.led(ctx, applied)
	if err != nil {
		return 0, err
	}
	reported := 0
	for _, s := range said {
		if s.Rule == own && s.Source == source && s.Step == "blind" {
			reported += s.Count
		}
	}
	if lost = len(acknowledged) - len(applied); lost != reported {
		breaches = append(breaches, fmt.Sprintf("P1: stream %s lost %d of %d events before they were applied, and alerts report %d", source, lost, len(acknowledged), reported))
	}
	return lost, join(breaches)
}
