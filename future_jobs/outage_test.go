package futurejobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"deadman/checks"
)

// The outage of an asynchronous handler ends once it answers a check, and not before.
func TestHandlersOutageEndsWhenItAnswers(t *testing.T) {
	down := &checks.Outage{Source: checks.HandlerSource("shipping"), Err: errors.New("no service")}
	open := []Outage{{Source: down.Source, RuleID: 1}, {Source: "shop", RuleID: 1}, {Source: down.Source, RuleID: 2}}
	var o outageCache
	o.replace(open, time.Time{})
	rule := orderRule()
	rule.ID = 1
	for _, c := range []struct {
		name string
		err  error
		over bool
	}{{"it can't be queried", down, false}, {"an error of the check", errors.New("no total"), true}, {"down again", down, false}, {"an answer", nil, true}, {"none in time", context.DeadlineExceeded, false}} {
		o.noteAnswer(rule, c.err, time.Time{})
		for i, want := range []bool{c.over, false, false} {
			if got := o.hasAnswered(open[i]); got != want {
				t.Errorf("%s: outage %d is over: %t", c.name, i, got)
			}
		}
	}
	o.replace(nil, time.Time{})
	if o.noteAnswer(rule, nil, time.Time{}); len(o.open) > 0 {
		t.Error("an outage that is not open is over")
	}
}

// A success between a failed check and the writing of its outage ends the outage; a success before the failed check
// does not, nor does one before another node opened the outage.
func TestOutageCountsAnswersFromBeforeItIsKnown(t *testing.T) {
	start := time.Date(2026, 3, 2, 13, 0, 0, 0, time.UTC)
	down := &checks.Outage{Source: checks.HandlerSource("shipping"), Err: errors.New("no service")}
	one := Outage{Source: down.Source, RuleID: 1, OpenedAt: start.Add(10 * time.Second)}
	rule := orderRule()
	rule.ID = 1
	for name, c := range map[string]struct {
		errs []error // one a second, from start
		by   func(*outageCache)
		over bool
	}{
		"a success after the failed check":            {[]error{down, nil}, func(o *outageCache) { o.isOpen(one) }, true},
		"a success before the failed check":           {[]error{nil, down}, func(o *outageCache) { o.isOpen(one) }, false},
		"a success before another node opened it":     {[]error{nil}, func(o *outageCache) { o.replace([]Outage{one}, start) }, false},
		"a success after another node opened it":      {append(make([]error, 12), nil), func(o *outageCache) { o.replace([]Outage{one}, start) }, true},
		"a success and a failure after it was opened": {append(make([]error, 12), down), func(o *outageCache) { o.replace([]Outage{one}, start) }, false},
	} {
		var o outageCache
		for i, err := range c.errs {
			o.noteAnswer(rule, err, start.Add(time.Duration(i)*time.Second))
		}
		c.by(&o)
		if got := o.hasAnswered(one); got != c.over {
			t.Errorf("%s: the outage is over: %t", name, got)
		}
	}
	var o outageCache
	o.noteAnswer(rule, nil, start)
	if o.replace(nil, start.Add(time.Hour)); len(o.last) > 0 {
		t.Error("an answer is kept for an hour without an outage")
	}
}

// An answer ends the outage in which it arrived, and none of the later outages of the source: they may have begun before
// this node read that the first one is closed.
func TestAnswerEndsOneOutage(t *testing.T) {
	start := time.Date(2026, 3, 2, 13, 0, 0, 0, time.UTC)
	first := Outage{Source: checks.HandlerSource("shipping"), RuleID: 1, OpenedAt: start}
	later := first
	later.OpenedAt = start.Add(5 * time.Second)
	rule := orderRule()
	rule.ID = 1
	for name, opened := range map[string]func(*outageCache){
		"opened by another node":     func(o *outageCache) { o.replace([]Outage{first}, start) },
		"opened by this node":        func(o *outageCache) { o.isOpen(first) },
		"opened by it, and affected": func(o *outageCache) { o.isOpen(first); o.isOpen(Outage{Source: first.Source, RuleID: 1}) },
	} {
		var o outageCache
		opened(&o)
		o.noteAnswer(rule, nil, start.Add(time.Second))
		if o.replace([]Outage{first}, start.Add(2*time.Second)); !o.hasAnswered(first) {
			t.Errorf("%s: the outage is not over after an answer", name)
		}
		if o.replace([]Outage{later}, start.Add(6*time.Second)); o.hasAnswered(later) {
			t.Errorf("%s: a later outage is over", name)
		}
	}
}

// Jobs are affected by an outage before it is written. Its alert is dated when the outage is opened, and not earlier;
// otherwise the alert would be older than its outage.
func TestOutageIsAlertedWhenOpened(t *testing.T) {
	met := time.Date(2026, 3, 2, 13, 0, 0, 0, time.UTC)
	v := &task{rule: orderRule(), Decision: Decision{Job: Job{Last: CheckTimes{FailedAt: met}}, Outage: "shop"}}
	opened := met.Add(50 * time.Millisecond)
	alert := outageHits([]*task{v}, nil)[0].Alert(Outage{Source: "shop", OpenedAt: opened})
	if !alert.DecidedAt.Equal(opened) || !alert.Since.Equal(opened) {
		t.Errorf("an outage opened at %s; the alert of %s has since %s", opened, alert.DecidedAt, alert.Since)
	}
}
