package main

import (
	"strings"
	"testing"
)

func TestLint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	known := writeFile(t, dir, "calendars.yaml", "calendars:\n  office: {zone: Europe/Berlin, days: mon-fri, hours: \"09:00-17:00\"}\n")
	broken := writeFile(t, dir, "broken.yaml", "calendars:\n  office: {zone: Europe/Berlyn}\n")
	file := writeFile(t, dir, "rule.yaml", strings.Replace(goodRule, "after: 1h,", "after: 1h, of: ofice,", 1))
	for _, c := range []struct {
		code  int
		input string
		args  []string
		parts []string
	}{
		{0, goodRule, []string{"-"}, []string{"1 rule in 1 file: no errors"}},
		{3, strings.Replace(goodRule, "entity", "entitty", 1), []string{"-"}, []string{"standard input:3:1:", "entitty"}},
		{0, "", []string{file}, []string{"no errors"}},
		{3, "", []string{file, "--calendars", known}, []string{file + ":7:", "ofice", "office"}},
		{1, "", []string{file, "--calendars", broken}, []string{broken + ":2:", "Berlyn"}},
		{2, "", []string{file, "--calendars", dir + "/none.yaml"}, []string{"none.yaml"}},
		{1, strings.Repeat("# too much\n", 30_000), []string{"-"}, []string{"standard input", "256 KiB"}},
	} {
		args := append([]string{"rule", "lint"}, c.args...)
		runInProcess(t, c.input, nil, args...).check(t, args, c.code, c.parts...)
	}
}

// TestLintReportsUncheckedParts checks that lint names the calendars that it could not check without their file.
func TestLintReportsUncheckedParts(t *testing.T) {
	t.Parallel()
	const raised = "calendars not validated: office; give their file with --calendars\n"
	known := writeFile(t, t.TempDir(), "calendars.yaml", "calendars: {office: {zone: UTC}}\n")
	plain, named := goodRule, strings.Replace(goodRule, "after: 1h,", "after: 1h, of: office, within: office,", 1)
	for _, c := range []struct {
		input, wantText string
		args            []string
	}{
		{named, raised, nil},
		{named, "", []string{"--calendars", known}},
		{plain, "", nil},
		{named + "calendars: {office: {zone: UTC}}\n", "", nil},
	} {
		args := append([]string{"rule", "lint", "-"}, c.args...)
		if got := runInProcess(t, c.input, nil, args...); got.err != c.wantText || got.code != 0 {
			t.Errorf("%v: exit %d, the text is %q, want %q", args, got.code, got.err, c.wantText)
		}
		got := runInProcess(t, c.input, nil, append(args, "-o", "json")...)
		if strings.Contains(got.out, `"unchecked_calendars"`) != (c.wantText != "") || got.err != "" {
			t.Errorf("%v -o json: %+v", args, got)
		}
	}
}

func TestLintWarnsOfExpiredSchedule(t *testing.T) {
	t.Parallel()
	const past = "name: past\nentity: import\ntrigger: {schedule: '@at 2020-01-01T00:00:00Z'}\nescalate: [{after: 1h}]\n"
	if got := runInProcess(t, past, nil, "rule", "lint", "-"); got.code != 0 || !strings.Contains(got.out, "warning: past: schedule: @at 2020-01-01T00:00:00Z is over") {
		t.Errorf("%+v", got)
	}
}
