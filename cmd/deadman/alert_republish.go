package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newAlertRepublishCmd(io *cli) *cobra.Command {
	var since, rule string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "republish", Short: "Publish past alerts again after the loss of their stream",
		Long: `Publishes past alerts to the stream DEADMAN_ALERTS again, for its consumers, after the stream was
deleted or lost.

The command queues the alerts and reports their number; the nodes publish them in order afterwards.
Alerts that the stream still contains are queued, too, and not duplicated. Alerts that were purged
from the stream are published again. No notifications are sent.`,
		Example: `  deadman alert republish --since 24h --dry-run
  deadman alert republish --since 2026-01-31T15:04:05Z --rule order-unshipped`,
		Args: exactly(),
	}
	textFlagVar(cmd.Flags(), &since, "since", "time", "", "alerts raised since this time, such as 24h or 2026-01-31 (required)")
	cmd.Flags().StringVar(&rule, "rule", "", "only alerts of this rule")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the alerts without publishing")
	complete(cmd, "rule", completeRule(io))
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := io.ago("since", since)
		if err != nil {
			return err
		}
		return republishAlerts(io, cmd, web.RepublishRequest{Since: at, Rule: rule, DryRun: dryRun}, *yes)
	}
	return cmd
}

// republishAlerts counts the alerts, asks for confirmation, and publishes them.
func republishAlerts(io *cli, cmd *cobra.Command, request web.RepublishRequest, yes bool) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	publish := func(request web.RepublishRequest) (done web.RepublishResult, err error) {
		done, _, err = call[web.RepublishResult](cmd.Context(), c, http.MethodPost, "/alerts/republish", nil, request)
		return done, err
	}
	count := request
	count.DryRun = true
	sum, err := publish(count)
	if err != nil || request.DryRun {
		return printRepublished(io, "would be queued", sum, err)
	}
	if sum.Alerts > 0 {
		question := fmt.Sprintf("Queue %s to be published again, raised since %s?", number(int(sum.Alerts), "alert"), request.Since.Format(time.RFC3339))
		if err := io.confirm(yes, question); err != nil {
			return err
		}
	}
	sum, err = publish(request)
	return printRepublished(io, "queued", sum, err)
}

func printRepublished(io *cli, what string, done web.RepublishResult, err error) error {
	if err != nil {
		return err
	}
	return io.report(done, "%s: %s; nodes publish those that the stream does not contain\n", what, number(int(done.Alerts), "alert"))
}
