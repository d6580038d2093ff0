package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const (
	settingsPage = "../../docs/reference/settings.md"
	commandsPage = "../../docs/reference/cli.md"
)

// TestSettingsAreDocumented checks that the reference has exactly the settings of the program, with their defaults.
func TestSettingsAreDocumented(t *testing.T) {
	rows := make(map[string]string) // cells after the name, by name
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|.*\\| ?(.*?) ?\\|$").FindAllStringSubmatch(readPage(t, settingsPage), -1) {
		rows[m[1]] = strings.Trim(m[2], "`")
	}
	for _, s := range settings {
		preset, found := rows[s.name]
		if !found {
			t.Errorf("%s has no row for %s", settingsPage, s.name)
		} else if preset != s.preset {
			t.Errorf("%s: the default of %s is %q, and the page has %q", settingsPage, s.name, s.preset, preset)
		}
		delete(rows, s.name)
	}
	for name := range rows {
		t.Errorf("%s has a row for %s, and the program has no such setting", settingsPage, name)
	}
}

// TestCommandsAreDocumented checks that the reference has exactly the commands of the program, and no unknown flags.
func TestCommandsAreDocumented(t *testing.T) {
	rows := make(map[string]string) // the flags of a command, by its path
	for _, m := range regexp.MustCompile("(?m)^\\| `(deadman [a-z -]+?)(?: [A-Z-].*?)?`.*\\|(.*)\\|$").FindAllStringSubmatch(readPage(t, commandsPage), -1) {
		rows[m[1]] = m[2]
	}
	var out bytes.Buffer
	for _, c := range leaves(newRootCmd(newCLI(nil, &out, &out, nil))) {
		flags, found := rows[c.CommandPath()]
		if !found {
			t.Errorf("%s has no row for %s", commandsPage, c.CommandPath())
		}
		for _, flag := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(flags, -1) {
			if c.Flag(flag[1]) == nil {
				t.Errorf("%s: %s has no flag --%s", commandsPage, c.CommandPath(), flag[1])
			}
		}
		delete(rows, c.CommandPath())
	}
	delete(rows, "deadman completion") // cobra adds this command when it runs
	for path := range rows {
		t.Errorf("%s has a row for %s, and the program has no such command", commandsPage, path)
	}
}

// leaves returns the commands that do something, below and including c.
func leaves(c *cobra.Command) (all []*cobra.Command) {
	if !c.HasSubCommands() {
		if !c.Runnable() {
			return nil // a topic of the help
		}
		return []*cobra.Command{c}
	}
	for _, sub := range c.Commands() {
		all = append(all, leaves(sub)...)
	}
	return all
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
