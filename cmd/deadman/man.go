package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

func newManCmd(io *cli) *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Short: "Write the manual pages of all commands",
		Long: `Writes a manual page for each command to a folder, which is created if it is missing. Pages that the
folder has are replaced.`,
		Example: `  deadman man /usr/local/share/man/man1
  man deadman-rule-apply`,
		Args: exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			pages, err := writeManual(cmd.Root(), args[0])
			if err != nil {
				return fmt.Errorf("manual pages: %w", err)
			}
			_, err = fmt.Fprintf(io.out, "%d pages in %s\n", pages, args[0])
			return err
		},
	}
}

// writeManual writes the manual page of each command below and including root, and returns their number. The date of the pages
// is SOURCE_DATE_EPOCH, in Unix seconds, or today.
func writeManual(root *cobra.Command, folder string) (pages int, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // all users read manual pages
		return 0, err
	}
	setTextLayout(root)
	if err := doc.GenManTree(root, &doc.GenManHeader{Source: "deadman " + version, Manual: "deadman"}, folder); err != nil {
		return 0, err
	}
	found, err := filepath.Glob(filepath.Join(folder, "deadman*.1"))
	return len(found), err
}

// setTextLayout prepares the texts of commands for the generator, which reads Markdown: it keeps the characters of Markdown,
// and the lines of an indented list.
func setTextLayout(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true // the date of the generation
	cmd.Long = manualText(cmd.Long)
	escape := func(f *pflag.Flag) { f.Usage = markdown.Replace(f.Usage) }
	cmd.NonInheritedFlags().VisitAll(escape)
	for _, sub := range cmd.Commands() {
		setTextLayout(sub)
	}
}

// markdown escapes the characters that Markdown would take for markup.
var markdown = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, `<`, `\<`, "`", "\\`", `[`, `\[`)

// manualText converts the text of a command to Markdown. Markdown keeps indented lines as they are if they follow an empty
// line.
func manualText(text string) string {
	var b strings.Builder
	after := "" // the line before
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, "  ")
		if indented != strings.HasPrefix(after, "  ") && strings.TrimSpace(after) != "" {
			b.WriteByte('\n')
		}
		if after = line; indented {
			b.WriteString("  " + line)
			continue
		}
		b.WriteString(markdown.Replace(line))
	}
	return b.String()
}
