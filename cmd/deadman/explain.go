package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newExplainCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain ENTITY KEY", Short: "Show all jobs, checks and alerts of an entity", Args: exactly("ENTITY", "KEY"),
		Long: "Shows the jobs of an entity, past and pending, with their checks, decisions, alerts and outcomes,\noldest first.",
		RunE: io.with(explainEntity),
	}
	addURL(cmd.Flags(), io)
	return cmd
}

func explainEntity(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	entity, raw, err := get[web.Entity](cmd.Context(), c, "/entities/"+url.PathEscape(args[0]), url.Values{"key": {args[1]}})
	if err != nil {
		return err
	}
	return io.write(raw, func() error { return printEntity(io, entity) })
}

func printEntity(io *cli, entity web.Entity) error {
	s := newKeyValues(io)
	for i := len(entity.History.Items) - 1; i >= 0; i-- {
		e := entity.History.Items[i]
		printJobHistory(s, e.Job, entity.Alerts.Items)
		s.painted("ended", outcomeColour(e.Outcome), string(e.Outcome))
		if e.Reason != "" {
			s.line("reason", "%s", e.Reason)
		}
		s.instant("at", e.EndedAt)
		s.blank()
	}
	for i, j := range entity.Jobs.Items {
		if i > 0 {
			s.blank()
		}
		printJobHistory(s, j, entity.Alerts.Items)
		s.painted("status", statusColour(j.Status), statusText(j))
		printNextCheck(s, j)
		printAck(s, j.Acknowledged)
	}
	if len(entity.Jobs.Items) == 0 {
		s.line(entity.Entity, "%s: no pending jobs", entity.Key)
	}
	return s.end()
}

// printJobHistory prints a job with its timeline and its alerts.
func printJobHistory(s *keyValues, j web.Job, all []web.Alert) {
	s.line("rule", "%s, version %d", j.Rule, j.RuleVersion)
	s.instant("started", j.Since)
	printTrail(s, j.Trail)
	for i := len(all) - 1; i >= 0; i-- {
		for _, id := range j.Alerts {
			if a := all[i]; a.ID == id {
				s.painted(severityOrStatus(a.Record()), newAlertColour(a.Record()), s.io.exact(a.DecidedAt)+"  "+a.Text)
			}
		}
	}
}
