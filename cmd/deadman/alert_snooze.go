package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"deadman/alerts"
	"deadman/web"
)

func newAlertSnoozeCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "snooze ID | snooze RULE KEY | snooze --rule RULE", Short: "Postpone the next checks of the jobs of alerts", Args: cobra.MaximumNArgs(2),
		ValidArgsFunction: completeRule(io),
		Long: `Postpones the next check of an alert's job; no step is raised before the end of the snooze.
Events still resolve the job. A later check is not moved.

ID is an alert id, or its first or last characters. RULE KEY is a pending job. With filters in
place of them, the jobs of all matching open alerts that are not acknowledged are snoozed,
whatever their number.`,
		Example: `  deadman alert snooze 6c8e0b1d --for 2h
  deadman alert snooze --rule order-unshipped --severity warning --for 1h`,
	}
	match := newMatchFlags(cmd)
	span := textFlag(cmd.Flags(), "for", "duration", "", "duration of the snooze, such as 2h")
	until := textFlag(cmd.Flags(), "until", "time", "", "end of the snooze (15:04, 2026-01-31T15:04:05Z, +2h)")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		request, err := snoozeRequest(io, cmd, *span, *until)
		if err != nil {
			return err
		}
		if by := match.given(); by != "" || len(args) == 0 {
			return match.snooze(io, cmd, args, by, request)
		}
		return snoozeAlert(io, cmd, args, request)
	}
	return cmd
}

// snoozeRequest reads the flags --for and --until; one is required.
func snoozeRequest(io *cli, cmd *cobra.Command, span, until string) (request web.SnoozeRequest, err error) {
	if (span == "") == (until == "") {
		return request, usage("%s requires either --for or --until", commandName(cmd))
	}
	if err := checkSpan("for", span); err != nil {
		return request, err
	}
	request.For = span
	request.Until, err = io.instantFlag("until", until, io.now())
	return request, err
}

// snoozeAlert snoozes the job of an alert, or of a rule and a key.
func snoozeAlert(io *cli, cmd *cobra.Command, args []string, request web.SnoozeRequest) error {
	if len(args) == 1 {
		c, err := io.client()
		if err != nil {
			return err
		}
		a, _, err := readAlert(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		if a.Ended != nil || a.Status == alerts.Resolved {
			return fmt.Errorf("alert %s is over, and its job has ended; deadman job snooze %s %s snoozes the pending job of the key, if any", a.ID, sanitize(a.Rule), sanitize(a.Key))
		}
		args = []string{a.Rule, a.Key}
	}
	path, query := jobPath(args)
	return postJob(io, cmd, path+"/snooze", query, request)
}

// snooze snoozes the jobs of all open alerts that match, in as many requests as it takes.
func (m matchFlags) snooze(io *cli, cmd *cobra.Command, args []string, by string, request web.SnoozeRequest) error {
	if err := m.check(cmd, args, by); err != nil {
		return err
	}
	c, err := io.client()
	if err != nil {
		return err
	}
	var sum web.SnoozeAllResult
	for {
		did, _, err := call[web.SnoozeAllResult](cmd.Context(), c, http.MethodPost, "/alerts/snooze", nil, web.SnoozeAllRequest{SnoozeRequest: request, Match: m.match(), Cursor: sum.Next})
		if err != nil {
			return err
		}
		sum.Snoozed += did.Snoozed
		sum.Ineffective += did.Ineffective
		sum.Paused += did.Paused
		sum.BeyondHorizon += did.BeyondHorizon
		sum.Before += did.Before
		sum.Ended += did.Ended
		sum.Outages += did.Outages
		sum.Losses += did.Losses
		sum.Remaining, sum.Next = did.Remaining, did.Next
		if sum.Next == "" {
			break
		}
		if _, err := fmt.Fprintf(io.err, "%s snoozed, at most %s remaining\n", number(int(sum.Snoozed-sum.Ineffective), "job"), number(int(did.Remaining), "alert")); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	err = io.write(raw, func() error {
		return printCounts(io, fmt.Sprintf("%s snoozed", number(int(sum.Snoozed-sum.Ineffective), "job")), "alert", []countReason{
			{sum.Ineffective, "unchanged, as the next checks of their jobs are later"},
			{sum.Paused, "not snoozed: their jobs are paused"},
			{sum.BeyondHorizon, "not snoozed: the end is beyond the horizon of their rules; choose an earlier one"},
			{sum.Before, "not snoozed: they are acknowledged"},
			{sum.Ended, "not snoozed: their jobs ended or changed meanwhile"},
			{sum.Outages, "not snoozed: they are about outages and close when the outage ends"},
			{sum.Losses, "not snoozed: they are about lost data; close them with deadman alert close"},
		})
	})
	if err != nil || sum != (web.SnoozeAllResult{}) {
		return err
	}
	return warnUnknownRule(cmd.Context(), io, c, *m.texts[0])
}
