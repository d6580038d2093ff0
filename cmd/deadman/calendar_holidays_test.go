package main

import (
	"bytes"
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
