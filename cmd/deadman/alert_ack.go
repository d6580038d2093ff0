package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"deadman/alerts"
	"deadman/web"
)

func (p *cli) ackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ack ID | ack RULE KEY", Short: "Acknowledge an alert: further steps stay unsaid, for a while or for good", Args: idOrJob,
		ValidArgsFunction: p.completeRule,
		Long: `Keeps further steps of the alert's job unsaid: for a while, after which the highest step that
came due speaks, or for good. What resolves the job closes what was said all the same. Of an id
the last letters will do, as lists show them; a rule and a key are the last alert of that job.`,
		Example: `  deadman alert ack 6c8e0b1d --for 2h --note "I am on it"
  deadman alert ack order-unshipped 1042`,
	}
	span := cmd.Flags().String("for", "", "for this long, such as 2h (default: for good)")
	until := cmd.Flags().String("until", "", "until this time (15:04, 2026-01-31T15:04:05Z, +2h)")
	note := cmd.Flags().String("note", "", "for those who wonder")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if *span != "" && *until != "" {
			return usage("%s takes --for or --until, not both", cmd.CommandPath())
		}
		if err := checkSpan("for", *span); err != nil {
			return err
		}
		wish := web.AckRequest{For: *span, Note: *note}
		if wish.Until, err = p.instantFlag("until", *until, p.now()); err != nil {
			return err
		}
		return p.setAck(cmd, http.MethodPost, args, wish)
	}
	return cmd
}

func (p *cli) unackCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unack ID | unack RULE KEY", Short: "Take an acknowledgement back: the highest step that came due speaks", Args: idOrJob,
		ValidArgsFunction: p.completeRule,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.setAck(cmd, http.MethodDelete, args, nil) },
	}
}

// idOrJob checks the arguments of a command that takes an alert id, or a rule and a key.
func idOrJob(cmd *cobra.Command, args []string) error {
	if n := len(args); n != 1 && n != 2 {
		return usage("%s takes ID, or RULE KEY; it got %s", cmd.CommandPath(), number(n, "argument"))
	}
	return nil
}

// setAck acknowledges an alert or removes its acknowledgement, and prints the job.
func (p *cli) setAck(cmd *cobra.Command, method string, alert []string, body any) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	var id alerts.ID
	if len(alert) == 2 {
		id, err = c.lastAlert(cmd.Context(), alert)
	} else {
		id, err = c.alertOf(cmd.Context(), alert[0])
	}
	if err != nil {
		return err
	}
	j, raw, err := tell[web.Job](cmd.Context(), c, method, "/alerts/"+id.String()+"/ack", nil, body)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	return p.showJob(j)
}

// acknowledged prints the acknowledgement, if any.
func (s *keyValues) acknowledged(a *web.Acknowledged) {
	if a == nil {
		return
	}
	s.line("acknowledged", "by %s", a.By)
	s.instant("since", a.At)
	if a.Until.IsZero() {
		s.line("until", "for good")
	} else {
		s.instant("until", a.Until)
	}
	if a.Note != "" {
		s.line("note", "%s", a.Note)
	}
}
