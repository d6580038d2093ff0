package futurejobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"deadman/checks"
)

// A handler finds out by itself, so that its outage is over once it answered a check, and not
// while nobody has heard of it.
func TestAHandlersOutageEndsWhenItAnswers(t *testing.T) {
	down := &checks.Outage{Source: checks.HandlerSource("shipping"), Err: errors.New("no service")}
	open := []Outage{{Source: down.Source, RuleID: 1}, {Source: "shop", RuleID: 1}, {Source: down.Source, RuleID: 2}}
	var o outages
	o.know(open)
	rule := orderRule()
	rule.ID = 1
	for _, c := range []struct {
		name string
		err  error
		over bool
	}{{"it can't be asked", down, false}, {"an error of the check", errors.New("no total"), true}, {"down again", down, false}, {"an answer", nil, true}, {"none in time", context.DeadlineExceeded, false}} {
		o.answered(rule, c.err)
		for i, want := range []bool{c.over, false, false} {
			if got := o.isHeard(open[i]); got != want {
				t.Errorf("%s: outage %d is over: %t", c.name, i, got)
			}
		}
	}
	o.know(nil)
	if o.answered(rule, nil); len(o.works) > 0 {
		t.Error("an outage that is not open is over")
	}
}

// Jobs meet an outage before it is written. What is said of it is decided when it is opened, and
// not earlier, or a reader would find an alert older than what it is about.
func TestAnOutageIsSaidWhenItIsOpened(t *testing.T) {
	met := time.Date(2026, 3, 2, 13, 0, 0, 0, time.UTC)
	v := &verdict{rule: orderRule(), Decision: Decision{Job: Job{Last: Look{FailedAt: met}}, Outage: "shop"}}
	opened := met.Add(50 * time.Millisecond)
	said := metBy([]*verdict{v}, nil)[0].Say(Outage{Source: "shop", OpenedAt: opened})
	if !said.DecidedAt.Equal(opened) || !said.Since.Equal(opened) {
		t.Errorf("an outage that was opened at %s is said at %s to be since %s", opened, said.DecidedAt, said.Since)
	}
}
