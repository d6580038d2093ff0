package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestManual checks that each command has a manual page with its short description, its flags and the lines of its examples,
// and that the pages depend on SOURCE_DATE_EPOCH, not on the time of the run.
func TestManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	folder := filepath.Join(t.TempDir(), "man1")
	runInProcess(t, "", nil, "man", folder).check(t, []string{"man"}, 0, " pages in "+folder)
	for _, c := range commands(newRootCmd(inProcess(nil, nil))) {
		if !c.IsAvailableCommand() {
			continue // a topic of the help
		}
		text, err := os.ReadFile(filepath.Join(folder, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		page := unescape.ReplaceAllString(string(text), "$1")
		if !strings.Contains(page, c.Short) || !strings.Contains(page, `"Nov 2023"`) {
			t.Errorf("%s: the page has no short description or not the date: %.200s", c.CommandPath(), page)
		}
		for _, lines := range []string{c.Long, c.Example} {
			for line := range strings.Lines(lines) {
				if line = strings.TrimSpace(line); !strings.Contains(page, line) {
					t.Errorf("%s: the page lacks the line %q", c.CommandPath(), line)
				}
			}
		}
	}
	runInProcess(t, "", nil, "man", os.DevNull+"/man").check(t, []string{"man"}, 1, "manual pages: mkdir "+os.DevNull)
}

// unescape matches what troff reads as one character, and macros for fonts, which have no text.
var unescape = regexp.MustCompile(`\\(?:f[BIPR]|(.))`)
