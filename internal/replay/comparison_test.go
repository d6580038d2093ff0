package replay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/internal/replay"
)

// Alerts of the same step of a job correspond to each other in order; another job of the key has others.
func TestComparison(t *testing.T) {
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	alert := func(key, step string, since, slot int, severity alerts.Severity, status alerts.Status) alerts.Alert {
		return alerts.Alert{Rule: "a", Entity: "order", Key: key, Detail: alerts.Detail{
			Draft: alerts.Draft{Step: step, Severity: severity, Status: status, Text: "order " + key}, Since: at(since), Slot: at(slot),
		}}
	}
	c := replay.NewComparison()
	for _, a := range []alerts.Alert{
		alert("same", "late", 0, 60, alerts.Warning, alerts.Firing), alert("same", "late", 0, 90, alerts.Warning, alerts.Resolved),
		alert("goes", "late", 0, 60, alerts.Warning, alerts.Firing),
		alert("moves", "late", 0, 60, alerts.Warning, alerts.Firing), alert("louder", "late", 0, 60, alerts.Warning, alerts.Firing),
		alert("often", "again", 0, 60, alerts.Warning, alerts.Firing), alert("often", "again", 0, 70, alerts.Warning, alerts.Firing),
		alert("anew", "late", 0, 60, alerts.Warning, alerts.Firing),
	} {
		if err := c.Before(a); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []alerts.Alert{
		alert("same", "late", 0, 60, alerts.Warning, alerts.Firing), alert("same", "late", 0, 90, alerts.Warning, alerts.Resolved),
		alert("comes", "late", 0, 60, alerts.Warning, alerts.Firing),
		alert("moves", "late", 0, 50, alerts.Warning, alerts.Firing), alert("louder", "late", 0, 60, alerts.Critical, alerts.Firing),
		alert("often", "again", 0, 60, alerts.Warning, alerts.Firing), alert("often", "again", 0, 65, alerts.Warning, alerts.Firing),
		alert("often", "again", 0, 70, alerts.Warning, alerts.Firing),
		alert("anew", "late", 5, 65, alerts.Warning, alerts.Firing),
	} {
		if err := c.After(a); err != nil {
			t.Fatal(err)
		}
	}
	d := c.Result([]string{"b", "a"})
	var got []string
	for _, one := range d.Changes {
		got = append(got, fmt.Sprint(one.Change, " ", one.Key, " ", one.Newer().Slot.Format("15:04"), " ", one.Newer().Severity))
	}
	want := []string{
		"moves moves 10:50 warning", "goes anew 11:00 warning", "comes comes 11:00 warning", "goes goes 11:00 warning", "moves louder 11:00 critical",
		"comes anew 11:05 warning", "moves often 11:05 warning", "comes often 11:10 warning",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]replay.RuleChanges{{Rule: "a", Before: 8, After: 9, Comes: 3, Goes: 2, Moves: 3}, {Rule: "b"}}, d.Rules); diff != "" {
		t.Error(diff)
	}
}
