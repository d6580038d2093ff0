package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/web"
)

// barMost is the length of the longest bar, in characters.
const barMost = 60

// Marks of a bar.
const (
	workedMark  = "█" // checks and ticks of the past
	plannedMark = "▓" // pending
	ticksMark   = "░" // expected from schedules
)

func newJobSlotsCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "slots", Short: "Show the load over time: past and planned checks and schedule ticks"}
	bucket := textFlag(cmd.Flags(), "bucket", "duration", "30m", "time span of a bar, in whole minutes that divide a day")
	filters := []filter{byRule, since("from", "", "slots"), until("to", "", "slots")}
	return newReportCmd(io, cmd, "/slots", filters, func() url.Values { return url.Values{"bucket": {*bucket}} }, printSlots)
}

// printSlots draws a bar for each bucket, all at the same scale.
func printSlots(io *cli, slots web.Slots) error {
	width := terminalWidth(io.out)
	if !slices.ContainsFunc(slots.Items, busy) {
		_, err := fmt.Fprintf(io.out, "no checks and no ticks between %s and %s\n",
			slots.From.In(io.zone).Format("Mon 2006-01-02 15:04"), slots.To.In(io.zone).Format("Mon 2006-01-02 15:04"))
		return err
	}
	scale := scaleOf(slots.Items, width)
	day := ""
	for _, s := range slots.Items {
		at := s.From.In(io.zone)
		if d := at.Format("Mon 2006-01-02"); d != day {
			day = d
			if _, err := fmt.Fprintln(io.out, io.palette.paint(dim, d)); err != nil {
				return err
			}
		}
		if err := printSlot(io, s, at, scale); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(io.out, "%s past  %s planned  %s planned schedule ticks\n",
		io.palette.paint(green, workedMark), io.palette.paint(blue, plannedMark), io.palette.paint(yellow, ticksMark))
	return err
}

// busy reports whether a bucket has any checks or ticks.
func busy(s web.Slot) bool { return total(s) > 0 }

// total returns the checks and ticks of a bucket, past and planned.
func total(s web.Slot) int64 { return s.Checks + s.Applied + s.Planned + int64(s.Ticks) }

func printSlot(io *cli, s web.Slot, at time.Time, scale float64) error {
	sum, notes := fmt.Sprint(total(s)), []string{}
	if s.More {
		sum += "+"
	}
	if s.Alerts > 0 {
		notes = append(notes, fmt.Sprintf("%d alerts", s.Alerts))
	}
	if s.Missed > 0 {
		notes = append(notes, fmt.Sprintf("%d missed ticks", s.Missed))
	}
	if late := s.Lateness(); late >= time.Second {
		notes = append(notes, fmt.Sprintf("%s late", late.Round(time.Second)))
	}
	line := at.Format("15:04")
	if sum != "0" {
		line += fmt.Sprintf(" %8s %s", sum, slotBar(io, s, scale))
	}
	if len(notes) > 0 {
		line += " " + io.palette.paint(dim, strings.Join(notes, ", "))
	}
	_, err := fmt.Fprintln(io.out, line)
	return err
}

// slotBar draws the parts of a bucket one after the other.
func slotBar(io *cli, s web.Slot, scale float64) (bar string) {
	for _, part := range []struct {
		colour colour
		mark   string
		jobs   int64
	}{{green, workedMark, s.Checks + s.Applied}, {blue, plannedMark, s.Planned}, {yellow, ticksMark, int64(s.Ticks)}} {
		if part.jobs > 0 {
			bar += io.palette.paint(part.colour, strings.Repeat(part.mark, max(int(float64(part.jobs)*scale), 1)))
		}
	}
	return bar
}

// scaleOf returns the characters per job. A part with any jobs is drawn with at least one character.
func scaleOf(slots []web.Slot, width int) float64 {
	largest := int64(1)
	for _, s := range slots {
		largest = max(largest, total(s))
	}
	room := barMost
	if width > 0 {
		room = min(room, max(width-40, 10))
	}
	return min(float64(room)/float64(largest), 1)
}
