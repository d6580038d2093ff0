package main

import (
	"fmt"
	"io"
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
	workedMark  = "█" // checked
	plannedMark = "▓" // pending
	ticksMark   = "░" // expected from schedules
)

var slotFilters = []filter{
	byRule,
	since("from", "", "slots"), until("to", "", "slots"),
}

func (p *cli) slotsCommand() *cobra.Command {
	var bucket string
	cmd := &cobra.Command{
		Use: "slots", Short: "Show the load by slot: what was checked, what is waited for, what schedules will begin", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.showSlots(cmd, bucket) },
	}
	for _, f := range slotFilters {
		f.add(p, cmd)
	}
	cmd.Flags().StringVar(&bucket, "bucket", "30m", "how wide the bars' times are, in whole minutes that divide a day")
	return cmd
}

func (p *cli) showSlots(cmd *cobra.Command, bucket string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	query := url.Values{"bucket": {bucket}}
	for _, f := range slotFilters {
		value, err := f.value(p, cmd)
		if err != nil {
			return err
		}
		if value != "" {
			query.Set(f.parameter, value)
		}
	}
	slots, raw, err := get[web.Slots](cmd.Context(), c, "/slots", query)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	return p.drawSlots(slots, terminalWidth(p.out))
}

// drawSlots draws a bar for each bucket, all at the same scale.
func (p *cli) drawSlots(slots web.Slots, width int) error {
	if !slices.ContainsFunc(slots.Items, busy) {
		_, err := fmt.Fprintf(p.out, "nothing was checked and nothing is due between %s and %s\n",
			slots.From.In(p.zone).Format("Mon 2006-01-02 15:04"), slots.To.In(p.zone).Format("Mon 2006-01-02 15:04"))
		return err
	}
	scale := scaleOf(slots.Items, width)
	day := ""
	for _, s := range slots.Items {
		at := s.From.In(p.zone)
		if d := at.Format("Mon 2006-01-02"); d != day {
			day = d
			if _, err := fmt.Fprintln(p.out, p.palette.paint(dim, d)); err != nil {
				return err
			}
		}
		if err := p.drawSlot(p.out, s, at, scale); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.out, "%s checked  %s waited for  %s begun by schedules\n",
		p.palette.paint(green, workedMark), p.palette.paint(blue, plannedMark), p.palette.paint(yellow, ticksMark))
	return err
}

// busy reports whether a bucket has any jobs.
func busy(s web.Slot) bool { return s.Checks+s.Planned+int64(s.Ticks) > 0 }

func (p *cli) drawSlot(out io.Writer, s web.Slot, at time.Time, scale float64) error {
	sum, said := fmt.Sprint(s.Checks+s.Planned+int64(s.Ticks)), []string{}
	if s.More {
		sum += "+"
	}
	if s.Alerts > 0 {
		said = append(said, fmt.Sprintf("%d alerts", s.Alerts))
	}
	if s.WorstLag >= 1 {
		said = append(said, fmt.Sprintf("%s late", time.Duration(s.WorstLag*float64(time.Second)).Round(time.Second)))
	}
	line := at.Format("15:04")
	if sum != "0" {
		line += fmt.Sprintf(" %8s %s", sum, p.bar(s, scale))
	}
	if len(said) > 0 {
		line += " " + p.palette.paint(dim, strings.Join(said, ", "))
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

// bar draws the parts of a bucket one after the other.
func (p *cli) bar(s web.Slot, scale float64) (bar string) {
	for _, part := range []struct {
		colour colour
		mark   string
		jobs   int64
	}{{green, workedMark, s.Checks}, {blue, plannedMark, s.Planned}, {yellow, ticksMark, int64(s.Ticks)}} {
		if part.jobs > 0 {
			bar += p.palette.paint(part.colour, strings.Repeat(part.mark, max(int(float64(part.jobs)*scale), 1)))
		}
	}
	return bar
}

// scaleOf returns the characters per job. A part with any jobs is drawn with at least one character.
func scaleOf(slots []web.Slot, width int) float64 {
	most := int64(1)
	for _, s := range slots {
		most = max(most, s.Checks+s.Planned+int64(s.Ticks))
	}
	room := barMost
	if width > 0 {
		room = min(room, max(width-40, 10))
	}
	return min(float64(room)/float64(most), 1)
}
