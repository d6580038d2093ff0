//go:build faultpoints

package failpoints

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func parse(t *testing.T, text string) *Plan {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlan(t *testing.T) {
	p := parse(t, "seed=7; relay.published=kill@3;intake.apply=sleep:200ms@0.1; mark=error")
	want := []Fault{
		{Place: "relay.published", Action: Kill, At: 3, Chance: 1},
		{Place: "intake.apply", Action: Sleep, For: 200 * time.Millisecond, Chance: 0.1},
		{Place: "mark", Action: Error, Chance: 1},
	}
	if !slices.Equal(p.faults, want) {
		t.Errorf("%+v", p.faults)
	}
	for pass, want := range []int{0, 0, 1, 0} {
		if got := len(p.due("relay.published")); got != want {
			t.Errorf("pass %d: %d faults, want %d", pass+1, got, want)
		}
	}
}

// The same seed selects the same passes; another seed selects others.
func TestPlanIsSeeded(t *testing.T) {
	passes := func(seed string) (hit []int) {
		p := parse(t, "seed="+seed+";here=sleep:1ms@0.1")
		for i := range 1000 {
			if len(p.due("here")) > 0 {
				hit = append(hit, i)
			}
		}
		return hit
	}
	one, again, other := passes("1"), passes("1"), passes("2")
	if !slices.Equal(one, again) || slices.Equal(one, other) {
		t.Errorf("%v\n%v\n%v", one, again, other)
	}
	if len(one) < 50 || len(one) > 200 {
		t.Errorf("%d of 1000 passes with a chance of 0.1", len(one))
	}
}

func TestRefusedPlans(t *testing.T) {
	for _, text := range []string{
		"relay", "relay=explode", "relay=sleep", "relay=kill:3s", "relay=kill@", "relay=kill@0", "relay=kill@-1", "relay=kill@1.5", "seed=x",
	} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q is a plan", text)
		}
	}
}

func TestFail(t *testing.T) {
	if err := PointErr("mark"); err != nil {
		t.Error("without a plan:", err)
	}
	Arm(parse(t, "mark=error@2"))
	defer Arm(nil)
	for pass, want := range []error{nil, ErrPlanned, nil} {
		if err := PointErr("mark"); !errors.Is(err, want) {
			t.Errorf("pass %d: %v, want %v", pass+1, err, want)
		}
	}
}
