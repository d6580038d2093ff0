package main

import (
	"fmt"
	"strings"
)

// showDiff shows a unified diff, each line behind an indent.
func (p *cli) showDiff(diff, indent string) error {
	for line := range strings.Lines(diff) {
		line = sanitize(strings.TrimSuffix(line, "\n"))
		if _, err := fmt.Fprintf(p.out, "%s%s\n", indent, p.palette.paint(diffColour(line), line)); err != nil {
			return err
		}
	}
	return nil
}

// diffColour is the colour of a line of a unified diff.
func diffColour(line string) colour {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return bold
	case strings.HasPrefix(line, "@@"):
		return blue
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "+"):
		return green
	}
	return dim
}
