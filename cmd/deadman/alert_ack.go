package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"deadman/alerts"
	"deadman/web"
)

func newAlertAckCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ack ID | ack RULE KEY | ack --rule RULE", Short: "Acknowledge alerts and suppress further escalation steps", Args: cobra.MaximumNArgs(2),
		ValidArgsFunction: completeRule(io),
		Long: `Acknowledges an alert. Further escalation steps of its job are suppressed until the
acknowledgement ends; then the highest step that came due is raised. Without --for or --until
the acknowledgement does not end. An event that resolves the job also resolves its alerts.

ID is an alert id, or its last characters as shown by deadman alert list. RULE KEY is the
newest alert of that job. With filters in place of them, all matching open alerts are
acknowledged, whatever their number; deadman alert groups counts them.`,
		Example: `  deadman alert ack 6c8e0b1d --for 2h --note "looking into it"
  deadman alert ack order-unshipped 1042
  deadman alert ack --rule order-unshipped --severity warning --for 1h`,
	}
	match := newMatchFlags(cmd)
	span := textFlag(cmd.Flags(), "for", "duration", "", "duration of the acknowledgement, such as 2h (default: no end)")
	until := textFlag(cmd.Flags(), "until", "time", "", "end of the acknowledgement (15:04, 2026-01-31T15:04:05Z, +2h)")
	note := cmd.Flags().String("note", "", "note, shown with the acknowledgement")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if *span != "" && *until != "" {
			return usage("%s accepts only one of --for and --until", commandName(cmd))
		}
		if err := checkSpan("for", *span); err != nil {
			return err
		}
		request := web.AckRequest{For: *span, Note: *note}
		if request.Until, err = io.instantFlag("until", *until, io.now()); err != nil {
			return err
		}
		if by := match.given(); by != "" || len(args) == 0 {
			return match.acknowledge(io, cmd, args, by, request)
		}
		return acknowledge(io, cmd, args, request)
	}
	return cmd
}

func newAlertUnackCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "unack ID | unack RULE KEY | unack --rule RULE", Short: "Remove acknowledgements and raise the highest step that came due", Args: cobra.MaximumNArgs(2),
		ValidArgsFunction: completeRule(io),
		Long: `Removes the acknowledgement of an alert, named as for deadman alert ack: by ID, by RULE KEY, or all
open alerts that match filters. The highest step that came due meanwhile is raised.`,
		Example: `  deadman alert unack 6c8e0b1d
  deadman alert unack --rule order-unshipped --severity warning`,
	}
	match := newMatchFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if by := match.given(); by != "" || len(args) == 0 {
			return match.unacknowledge(io, cmd, args, by)
		}
		return removeAck(io, cmd, args)
	}
	return cmd
}

// idOrJob checks the arguments of a command that takes an alert id, or a rule and a key.
func idOrJob(cmd *cobra.Command, args []string) error {
	if n := len(args); n != 1 && n != 2 {
		return usage("%s requires ID or RULE KEY; got %s", commandName(cmd), number(n, "argument"))
	}
	return nil
}

// acknowledge acknowledges an alert and prints its job.
func acknowledge(io *cli, cmd *cobra.Command, alert []string, request web.AckRequest) error {
	c, id, err := namedAlert(io, cmd, alert)
	if err != nil {
		return err
	}
	return setAck(io, cmd, c, http.MethodPost, id, request)
}

// removeAck removes the acknowledgement of an alert and prints its job. An alert without one is no error, and is reported.
func removeAck(io *cli, cmd *cobra.Command, alert []string) error {
	c, id, err := namedAlert(io, cmd, alert)
	if err != nil {
		return err
	}
	before, _, err := get[web.Alert](cmd.Context(), c, "/alerts/"+id.String(), nil)
	if err != nil {
		return err
	}
	if err := setAck(io, cmd, c, http.MethodDelete, id, nil); err != nil || before.Acknowledged != nil {
		return err
	}
	_, err = fmt.Fprintf(io.err, "alert %s was not acknowledged; nothing changed\n", shortID(id))
	return err
}

// setAck sends a request for the acknowledgement of an alert and prints the job.
func setAck(io *cli, cmd *cobra.Command, c *client, method string, id alerts.ID, body any) error {
	j, raw, err := call[web.Job](cmd.Context(), c, method, "/alerts/"+id.String()+"/ack", nil, body)
	if err != nil {
		return err
	}
	return io.write(raw, func() error { return printJob(io, j) })
}

// namedAlert returns a client and the id of the alert that a command names.
func namedAlert(io *cli, cmd *cobra.Command, args []string) (*client, alerts.ID, error) {
	c, err := io.client()
	if err != nil {
		return nil, alerts.ID{}, err
	}
	id, err := alertOf(cmd.Context(), c, args)
	return c, id, err
}

// alertOf returns the id of an alert that a command names by its id, or by a rule and a key.
func alertOf(ctx context.Context, c *client, args []string) (alerts.ID, error) {
	if len(args) == 2 {
		return findLastAlert(ctx, c, args)
	}
	return findAlert(ctx, c, args[0])
}

// printAck prints the acknowledgement, if any.
func printAck(s *keyValues, a *web.Acknowledged) {
	if a == nil {
		return
	}
	s.line("acknowledged", "by %s", a.By)
	s.instant("since", a.At)
	if a.Until.IsZero() {
		s.line("until", "no end")
	} else {
		s.instant("until", a.Until)
	}
	if a.Note != "" {
		s.line("note", "%s", a.Note)
	}
}
