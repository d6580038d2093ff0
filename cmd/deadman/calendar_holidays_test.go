package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestCalendarHolidays checks the lists of regions and of public holidays, in text and JSON, and an unknown region.
func TestCalendarHolidays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		code  int
		texts []string
	}{
		{[]string{"holidays"}, exitOK, []string{"\nde de-bb de-be", "\nus\n"}},
		{[]string{"holidays", "-o", "json"}, exitOK, []string{`"de-by"`}},
		{[]string{"holidays", "de-by", "--year", "2027"}, exitOK, []string{"2027-05-27  Thursday   Fronleichnam", "2027-03-29  Monday"}},
		{[]string{"holidays", "us", "--year", "2027", "-o", "json"}, exitOK, []string{`"day": "2027-11-25"`, `"weekday": "Thursday"`, `"name": "Thanksgiving Day"`}},
		{[]string{"holidays", "us", "--year", "1900"}, exitOK, []string{"no public holidays of us are known in 1900"}},
		{[]string{"holidays", "de-xx"}, exitUsage, []string{`"de-xx" is not a region with known public holidays; see deadman calendar holidays`}},
	} {
		var out, failure bytes.Buffer
		code := newCLI(nil, &out, &failure, nil).run(t.Context(), append([]string{"calendar"}, c.args...))
		for _, text := range c.texts {
			if code != c.code || !strings.Contains(out.String()+failure.String(), text) {
				t.Errorf("%q: exit code %d, no %q in %s%s", c.args, code, text, out.String(), failure.String())
			}
		}
	}
}

// TestCalendarsAmongRulesAreNamed checks that the commands with a folder of rules name a file of calendars in it, in one
// line, with the command that applies it.
func TestCalendarsAmongRulesAreNamed(t *testing.T) {
	t.Parallel()
	n, dir := newInProcessNode(t), t.TempDir()
	n.mustRun("rule", "new", "--file", filepath.Join(dir, "rule.yaml"), "--event", "orders.created", "--until", "orders.shipped") // with its tests
	file := writeFile(t, dir, "work.yaml", "calendars:\n  work: {zone: UTC, open: [{days: mon-fri, from: '9:00', to: '17:00'}]}\n")
	for _, args := range [][]string{
		{"rule", "apply", "-f", dir},
		{"rule", "lint", dir},
		{"rule", "test", dir},
	} {
		got := n.run("", args...)
		all := got.out + got.err
		if got.code == exitOK || strings.Count(all, file+":1:1: it has calendars, not rules: apply them with deadman calendar apply FILE") != 1 || strings.Contains(all, "has no name") {
			t.Errorf("%v: %d %s", args, got.code, all)
		}
	}
}
