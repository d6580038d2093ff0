package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// vaguePhrases matches phrases that the help avoids in favor of nouns.
var vaguePhrases = regexp.MustCompile(`(?i)\b(whoever|somebody|nobody|is said|is told|is asked|takes? in|goes on|by itself|that there (is|are))\b`)

// commands returns all commands below a command, itself included.
func commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

// TestHelpOfEachCommand checks the form of all help texts: each command has a short description that begins with a
// capital and ends without a period, each flag has a description without backquotes, and no text has a vague phrase.
func TestHelpOfEachCommand(t *testing.T) {
	t.Parallel()
	all := commands(newRootCmd(inProcess(nil, nil)))
	if len(all) < 60 {
		t.Fatalf("%d commands", len(all))
	}
	for _, cmd := range all {
		path := cmd.CommandPath()
		short := cmd.Short
		if short == "" || len(short) > 90 || !unicode.IsUpper(rune(short[0])) || strings.HasSuffix(short, ".") {
			t.Errorf("%s: short description %q", path, short)
		}
		texts := []string{short, cmd.Long, cmd.Example}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s --%s: description %q", path, f.Name, f.Usage)
			}
			if strings.Contains(f.Usage, "`") {
				t.Errorf("%s --%s: description %q has backquotes, which pflag takes for the type of the flag", path, f.Name, f.Usage)
			}
			texts = append(texts, f.Usage)
		})
		for _, text := range texts {
			if found := vaguePhrases.FindString(text); found != "" {
				t.Errorf("%s: %q in %q", path, found, text)
			}
			for line := range strings.Lines(text) {
				if len(line) > 140 {
					t.Errorf("%s: a line of %d characters: %s", path, len(line), line)
				}
			}
		}
	}
}

// TestHelpGroups checks that the help of the program lists its commands under headings.
func TestHelpGroups(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := inProcess(&out, nil).run(t.Context(), []string{"--help"}); code != exitOK {
		t.Fatalf("exit %d", code)
	}
	help := out.String()
	last := 0
	for _, part := range []string{"Run a node:", "  serve ", "Rules and events:", "  rule ", "Jobs and alerts:", "  alert ", "Access:", "  token ", "Additional Commands:", "  version "} {
		at := strings.Index(help, part)
		if at < last {
			t.Errorf("%q is missing, or out of order:\n%s", part, help)
		}
		last = max(last, at)
	}
}
