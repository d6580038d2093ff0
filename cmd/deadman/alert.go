package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// Values of the filters of alerts.
var (
	severities = wordsOf(alerts.Info, alerts.Warning, alerts.Error, alerts.Critical)
	statuses   = wordsOf(alerts.Firing, alerts.Resolved, alerts.Undetermined, alerts.GaveUp, alerts.Expired)
)

func wordsOf[W ~string](all ...W) []string {
	words := make([]string, len(all))
	for i, w := range all {
		words[i] = string(w)
	}
	return words
}

func (p *cli) alertCommand() *cobra.Command {
	cmd := group("alert", "Look at what was said, and follow it")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(
		listing[web.Alert]{
			short: "List alerts, newest first", path: "/alerts",
			filters: []filter{
				byRule, byEntity, byKey,
				{parameter: "open", does: "what goes on only: the newest alert of each pending job, and of each outage", kind: filterFlag},
				{parameter: "status", does: "of this kind of news only: " + strings.Join(statuses, ", "), values: statuses},
				{parameter: "severity", does: "of this severity only: " + strings.Join(severities, ", "), values: severities},
				since("decided_after", "after", "said"), until("decided_before", "before", "said"),
			},
			none:   "nothing was said yet",
			header: []string{"id", "said", "severity", "rule", "entity", "key", "step", "text"},
			row: func(p *cli, a web.Alert) []cell {
				said := a.Said()
				return []cell{
					dimCell("%s", shortID(said.ID)), cellOf(web.Relative(said.DecidedAt, p.now())), colouredCell(newsColour(said), loudnessOf(p, a)),
					cellOf(said.Rule), cellOf(said.Entity), cellOf(said.Key), cellOf(said.Step), cellOf(said.Text),
				}
			},
		}.command(p),
		&cobra.Command{Use: "get ID", Short: "Show one alert; the last letters of its id will do", Args: exactly("ID"), RunE: p.getAlert},
		p.tailCommand(),
		p.ackCommand(), p.unackCommand(),
		p.republishCommand(),
	)
	return cmd
}

// loudnessOf returns the loudness of an alert, marked if it is acknowledged.
func loudnessOf(p *cli, a web.Alert) string {
	if ackedUntil(p, a.Acknowledged) == "" {
		return loudness(a.Said())
	}
	return loudness(a.Said()) + ", acked"
}

// loudness returns the severity of a firing alert, and the status of any other.
func loudness(a alerts.Alert) string {
	if a.Status == alerts.Firing {
		return string(a.Severity)
	}
	return string(a.Status)
}

func (p *cli) getAlert(cmd *cobra.Command, args []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	id, err := c.alertOf(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	a, raw, err := get[web.Alert](cmd.Context(), c, "/alerts/"+id.String(), nil)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	return p.showAlert(a)
}

func (p *cli) showAlert(as web.Alert) error {
	s, a := newSheet(p), as.Said()
	s.line("alert", "%s", a.ID)
	s.painted("says", newsColour(a), a.Text)
	s.line("severity", "%s, %s", a.Severity, a.Status)
	s.line("rule", "%s, version %d", a.Rule, a.RuleVersion)
	s.line(a.Entity, "%s", a.Key)
	if a.Step != "" {
		s.line("step", "%s", a.Step)
	}
	if len(a.Passed) > 0 {
		s.line("passed over", "%s", strings.Join(a.Passed, ", "))
	}
	s.instant("waits since", a.Since)
	s.instant("slot", a.Slot)
	s.instant("decided", a.DecidedAt)
	s.line("published", "%t", as.Published)
	if as.Withheld {
		s.line("withheld", "a quota of the rule had no room for it in the stream")
	}
	s.acknowledged(as.Acknowledged)
	for _, d := range as.Deliveries {
		s.line("told", "%s: %s", d.Channel, delivered(d))
	}
	for _, id := range a.Closes {
		s.line("closes", "%s", id)
	}
	s.document("event", a.Event)
	s.document("state", a.State)
	return s.end()
}

// delivered describes the delivery of an alert on a channel.
func delivered(d web.Delivery) string {
	switch {
	case d.Mute != 0:
		return fmt.Sprintf("muted by mute %d", d.Mute)
	case d.Error != "":
		return fmt.Sprintf("%s, tried %s: %s", d.State, number(d.Tries, "time"), d.Error)
	}
	return d.State
}

func (p *cli) tailCommand() *cobra.Command {
	var backlog int
	cmd := &cobra.Command{
		Use: "tail", Short: "Show alerts as they come, until Ctrl-C", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if backlog < 0 || backlog > futurejobs.MaxLimit {
				return usage("--backlog is %d; it takes a whole number from 0 to %d", backlog, futurejobs.MaxLimit)
			}
			c, err := p.client()
			if err != nil {
				return err
			}
			for h, err := range c.follow(cmd.Context(), backlog, p.printTruncated) {
				if err != nil {
					return err
				}
				if err := p.showHeard(h); err != nil {
					return err
				}
			}
			return nil // Ctrl-C is the regular end
		},
	}
	cmd.Flags().IntVar(&backlog, "backlog", 10, "begin with so many that were said before, up to 500")
	return cmd
}

func (p *cli) printTruncated(err error) {
	fmt.Fprintf(p.err, "%s\ntrying again\n", plainLines(err.Error()))
}

// showHeard prints an alert on one line, as JSON or text.
func (p *cli) showHeard(h streamedAlert) error {
	if p.output == asJSON {
		var b bytes.Buffer
		if err := json.Compact(&b, h.raw); err != nil {
			return err
		}
		_, err := fmt.Fprintf(p.out, "%s\n", plainJSON(b.Bytes()))
		return err
	}
	_, err := fmt.Fprintln(p.out, p.alertLine(h.Alert))
	return err
}

// alertLine formats an alert: time, id, severity, rule, entity and key, step, text.
func (p *cli) alertLine(a alerts.Alert) string {
	parts := []string{
		p.palette.paint(dim, a.DecidedAt.In(p.zone).Format("15:04:05")), p.palette.paint(dim, shortID(a.ID)),
		p.palette.paint(newsColour(a), fmt.Sprintf("%-8s", loudness(a))),
		sanitize(a.Rule), p.palette.paint(bold, sanitize(a.Entity+" "+a.Key)),
	}
	if a.Step != "" {
		parts = append(parts, sanitize(a.Step))
	}
	return strings.Join(append(parts, sanitize(a.Text)), "  ")
}
