package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"deadman/internal/bus"
)

var rewriteDocs = flag.Bool("rewrite", false, "write the tables of docs/reference as the code has them")

const (
	settingsPage = "../../docs/reference/settings.md"
	commandsPage = "../../docs/reference/cli.md"
)

// TestSettingsAreDocumented checks that the reference has exactly the settings of the program, with their values, meanings
// and defaults. go test ./cmd/deadman -run Documented -rewrite updates all but the last column.
func TestSettingsAreDocumented(t *testing.T) {
	page, missing := readPage(t, settingsPage), make(map[string]setting)
	for _, s := range settings {
		missing[s.name] = s
	}
	written := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|.*\\|$").ReplaceAllStringFunc(page, func(row string) string {
		cells := strings.Split(row, "|")
		name := strings.Trim(cells[1], " `")
		s, isKnown := missing[name]
		if delete(missing, name); !isKnown {
			t.Errorf("%s has a row for %s twice, or the program has no such setting", settingsPage, name)
			return row
		}
		preset := ""
		if s.preset != "" {
			preset = "`" + s.preset + "` "
		}
		return strings.TrimSuffix(fmt.Sprintf("| `%s` | %s | %s | %s| %s", s.name, s.kind, s.usage, preset, strings.TrimSpace(cells[len(cells)-2])), " ") + " |"
	})
	for name := range missing {
		t.Errorf("%s has no row for %s: add one in its section, and run this test with -rewrite", settingsPage, name)
	}
	isWritten(t, settingsPage, page, written)
}

// TestVariablesAreDocumented checks that the reference has each environment variable that the program names, as a setting
// or by its name.
func TestVariablesAreDocumented(t *testing.T) {
	page, found := readPage(t, settingsPage), 0
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "faultpoints.go" { // its build tag is of tests
			continue
		}
		for _, name := range regexp.MustCompile(`\bDEADMAN_[A-Z_]*[A-Z]\b`).FindAllString(readPage(t, file), -1) {
			isSetting := slices.ContainsFunc(settings, func(s setting) bool { return s.variable() == name })
			isStream := slices.Contains([]string{bus.AlertsStream, bus.EventsStream}, name)
			if found++; !isSetting && !isStream && !strings.Contains(page, name) {
				t.Errorf("%s names %s, and %s has no such variable", file, name, settingsPage)
			}
		}
	}
	if found == 0 {
		t.Error("no variable is found in the code")
	}
}

// isWritten checks that a page is as the code has it, or writes it.
func isWritten(t *testing.T, path, page, written string) {
	t.Helper()
	switch {
	case page == written || t.Failed():
	case !*rewriteDocs:
		t.Fatalf("%s is not as the code has it; run go test ./cmd/deadman -run Documented -rewrite", path)
	default:
		if err := os.WriteFile(path, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExitCodesAreDocumented checks the tables of exit codes in the reference, and that their commands exist. go test
// ./cmd/deadman -run Documented -rewrite updates the tables.
func TestExitCodesAreDocumented(t *testing.T) {
	var out bytes.Buffer
	var table strings.Builder
	root := newRootCmd(newCLI(nil, &out, &out, nil))
	table.WriteString("| code | meaning |\n|---|---|\n")
	for _, e := range exitMeanings {
		fmt.Fprintf(&table, "| %d | %s |\n", e.code, e.meaning)
	}
	table.WriteString("\n| command | exit code 3 |\n|---|---|\n")
	for _, u := range unmetConditions {
		for _, c := range u.commands {
			path, flag, _ := strings.Cut(c, " --")
			cmd, _, err := root.Find(strings.Fields(path))
			if err != nil || cmd.CommandPath() != "deadman "+path || flag != "" && cmd.Flag(flag) == nil {
				t.Errorf("exit code 3 of %q: the program has no such command or flag", c)
			}
		}
		fmt.Fprintf(&table, "| `%s` | %s |\n", strings.Join(u.commands, "`, `"), u.meaning)
	}
	const begin, end = "<!-- exit codes: go test ./cmd/deadman -run Documented -rewrite -->\n", "<!-- /exit codes -->"
	page := readPage(t, commandsPage)
	before, rest, found := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the exit codes: %q and %q", commandsPage, begin, end)
	}
	isWritten(t, commandsPage, page, before+begin+table.String()+end+after)
}

// TestUnmetConditionsAreComplete scans the code: a command ends with exit code 3 by a condition of the table only, and each
// condition has a command that uses it.
func TestUnmetConditionsAreComplete(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	uses := make(map[string]int) // of the constants of conditions
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if name, is := n.(*ast.Ident); is && name.Name == "exitCondition" && file != "exit.go" && file != "exit_codes.go" {
				t.Errorf("%s uses exitCondition; add a condition to unmetConditions", file)
			} else if is && strings.HasPrefix(name.Name, "unmet") {
				uses[name.Name]++
			}
			return true
		})
	}
	conditions := 0
	for name, n := range uses {
		if name == "unmetCondition" || name == "unmetConditions" {
			continue
		}
		if conditions++; n < 3 { // its declaration, its place in the table, and a command
			t.Errorf("no command uses %s, or unmetConditions does not have it", name)
		}
	}
	if conditions != len(unmetConditions) || conditions == 0 {
		t.Errorf("%d conditions are declared, and unmetConditions has %d", conditions, len(unmetConditions))
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

// TestTroubleshootingNamesCommands checks that the commands of the page, with their flags, exist.
func TestTroubleshootingNamesCommands(t *testing.T) {
	const path = "../../docs/operations/troubleshooting.md"
	var out bytes.Buffer
	root := newRootCmd(newCLI(nil, &out, &out, nil))
	all := regexp.MustCompile("`deadman ([a-z-]+)((?: [^`\\s]+)*)`").FindAllStringSubmatch(strings.ReplaceAll(readPage(t, path), "\n", " "), -1)
	for _, m := range all {
		args := append([]string{m[1]}, strings.Fields(m[2])...)
		cmd, rest, err := root.Find(args)
		if err != nil || !cmd.Runnable() || cmd.HasSubCommands() {
			t.Errorf("%s names deadman %s: %v", path, strings.Join(args, " "), err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s names deadman %s: %v", path, strings.Join(args, " "), err)
		}
	}
	if len(all) < 20 {
		t.Errorf("%s names only %d commands", path, len(all))
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
