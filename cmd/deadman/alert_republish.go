package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"deadman/rules"
	"deadman/web"
)

func (p *cli) republishCommand() *cobra.Command {
	var since, rule string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "republish", Short: "Publish alerts again, after their stream was lost",
		Long: `Publishes alerts again that were published before, so that consumers get what they missed after
the stream DEADMAN_ALERTS was deleted or lost.

What the stream still has is not published twice; what was purged from it comes again. People
are told nothing again: that is about the stream alone.`,
		Example: `  deadman alert republish --since 24h --dry-run
  deadman alert republish --since 2026-01-31T15:04:05Z --rule order-unshipped`,
		Args: exactly(),
	}
	cmd.Flags().StringVar(&since, "since", "", "those decided since then, such as 24h or 2026-01-31")
	cmd.Flags().StringVar(&rule, "rule", "", "those of this rule only")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count them, and change nothing")
	complete(cmd, "rule", p.completeRule)
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := p.ago("since", since)
		if err != nil {
			return err
		}
		return p.republish(cmd, web.RepublishRequest{Since: at, Rule: rule, DryRun: dryRun}, *yes)
	}
	return cmd
}

// ago parses a required time flag. A span counts back from now.
func (p *cli) ago(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, usage("--%s is missing; write a span such as 24h, or a time such as 2026-01-31T15:04:05Z", flag)
	}
	if d, err := rules.ParseDuration(s); err == nil {
		return p.now().Add(-time.Duration(d)).UTC(), nil
	}
	at, err := p.instantFlag(flag, s, p.now())
	return at.UTC(), err
}

// republish counts the alerts, asks for confirmation, and publishes them.
func (p *cli) republish(cmd *cobra.Command, wish web.RepublishRequest, yes bool) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	call := func(wish web.RepublishRequest) (done web.Republished, err error) {
		done, _, err = tell[web.Republished](cmd.Context(), c, http.MethodPost, "/alerts/republish", nil, wish)
		return done, err
	}
	count := wish
	count.DryRun = true
	sum, err := call(count)
	if err != nil || wish.DryRun {
		return p.showRepublished("would be published again", sum, err)
	}
	if sum.Alerts > 0 {
		question := fmt.Sprintf("publish %s again, decided since %s?", number(int(sum.Alerts), "alert"), wish.Since.Format(time.RFC3339))
		if err := p.confirm(yes, question); err != nil {
			return err
		}
	}
	sum, err = call(wish)
	return p.showRepublished("published again", sum, err)
}

func (p *cli) showRepublished(what string, done web.Republished, err error) error {
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeValue(p.out, done)
	}
	_, err = fmt.Fprintf(p.out, "%s: %s\n", what, number(int(done.Alerts), "alert"))
	return err
}
