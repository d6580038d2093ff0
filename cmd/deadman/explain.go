package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain ENTITY KEY", Short: "Say why an entity is waited for, and why it was", Args: exactly("ENTITY", "KEY"),
		Long: "Says for one entity what waits for it, what each look saw and decided, what was said, and how past waits ended,\nwith the newest wait last.",
		RunE: p.explain,
	}
	addURL(cmd.Flags(), p)
	return cmd
}

func (p *cli) explain(cmd *cobra.Command, args []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	known, raw, err := get[web.Entity](cmd.Context(), c, "/entities/"+url.PathEscape(args[0]), url.Values{"key": {args[1]}})
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	return p.showEntity(known)
}

func (p *cli) showEntity(known web.Entity) error {
	s := newSheet(p)
	for i := len(known.History.Items) - 1; i >= 0; i-- {
		e := known.History.Items[i]
		s.wait(e.Job, known.Alerts.Items)
		s.painted("ended", outcomeColour(e.Outcome), string(e.Outcome))
		if e.Reason != "" {
			s.line("reason", "%s", e.Reason)
		}
		s.instant("at", e.EndedAt)
		s.blank()
	}
	for i, j := range known.Jobs.Items {
		if i > 0 {
			s.blank()
		}
		s.wait(j, known.Alerts.Items)
		s.painted("status", statusColour(j.Status), statusText(j))
		s.nextLook(j)
		s.acknowledged(j.Acknowledged)
	}
	if len(known.Jobs.Items) == 0 {
		s.line(known.Entity, "%s: nothing is waited for", known.Key)
	}
	return s.end()
}

// wait prints a job with its trail and its alerts.
func (s *keyValues) wait(j web.Job, all []web.Alert) {
	s.line("rule", "%s, version %d", j.Rule, j.RuleVersion)
	s.instant("waits since", j.Since)
	s.trail(j.Trail)
	for i := len(all) - 1; i >= 0; i-- {
		for _, id := range j.Alerts {
			if a := all[i]; a.ID == id {
				s.painted(loudness(a.Said()), newsColour(a.Said()), s.p.exact(a.DecidedAt)+"  "+a.Text)
			}
		}
	}
}
