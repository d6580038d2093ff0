package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"deadman/internal/configfile"
	"deadman/web"
)

func newExplainCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain ENTITY|RULE KEY", Short: "Show all jobs, checks and alerts of an entity", Args: exactly("ENTITY", "KEY"),
		Long: `Shows the jobs of an entity, past and pending, with their checks, decisions, alerts and outcomes, oldest
first. The name of a rule instead of an entity shows the jobs of that rule, unless an entity with that
name has jobs or alerts.`,
		ValidArgsFunction: completeRule(io),
		RunE:              io.with(explainEntity),
	}
	addURL(cmd.Flags(), io)
	return cmd
}

func explainEntity(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	entity, raw, err := readEntity(cmd.Context(), c, args[0], args[1])
	if err != nil {
		return err
	}
	hint := ""
	if len(entity.Jobs.Items)+len(entity.History.Items)+len(entity.Alerts.Items) == 0 {
		known, _, err := get[web.Page[web.Rule]](cmd.Context(), c, "/rules", url.Values{"name": {args[0]}})
		if err != nil {
			return err
		}
		if len(known.Items) > 0 {
			if entity, raw, err = readJobsOfRule(cmd.Context(), c, known.Items[0], args[1]); err != nil {
				return err
			}
		} else if hint, err = hintOfEntity(cmd.Context(), c, args[0]); err != nil {
			return err
		}
	}
	return io.write(raw, func() error {
		descriptions, err := readDescriptions(cmd.Context(), c, entity)
		if err == nil {
			err = printEntity(io, entity, descriptions)
		}
		if err == nil && hint != "" {
			_, err = fmt.Fprintln(io.out, hint)
		}
		return err
	})
}

// hintOfEntity returns a hint for an entity without jobs that no rule has, or "".
func hintOfEntity(ctx context.Context, c *client, entity string) (string, error) {
	known, _, err := get[web.Page[web.Rule]](ctx, c, "/rules", url.Values{"limit": {"500"}})
	if err != nil {
		return "", err
	}
	var names []string
	for _, r := range known.Items {
		names = append(names, r.Entity)
	}
	slices.Sort(names)
	switch near := configfile.Suggest(entity, names); {
	case known.Next != "" || slices.Contains(names, entity):
		return "", nil
	case near != "":
		return fmt.Sprintf("no rule has the entity %s; did you mean %s?", sanitize(entity), sanitize(near)), nil
	}
	return fmt.Sprintf("no rule has the entity %s; deadman rule list shows the entities", sanitize(entity)), nil
}

// readDescriptions returns the descriptions of the rules of an entity's jobs, by the name of the rule. A deleted rule has
// none.
func readDescriptions(ctx context.Context, c *client, of web.Entity) (map[string]string, error) {
	descriptions := make(map[string]string)
	for _, j := range of.Jobs.Items {
		descriptions[j.Rule] = ""
	}
	for _, e := range of.History.Items {
		descriptions[e.Rule] = ""
	}
	for name := range descriptions {
		known, _, err := get[web.Page[web.Rule]](ctx, c, "/rules", url.Values{"name": {name}})
		if err != nil {
			return nil, err
		}
		for _, r := range known.Items {
			descriptions[name] = r.Description
		}
	}
	return descriptions, nil
}

func readEntity(ctx context.Context, c *client, entity, key string) (web.Entity, []byte, error) {
	return get[web.Entity](ctx, c, "/entities/"+url.PathEscape(entity), url.Values{"key": {key}})
}

// readJobsOfRule reads the jobs, history and alerts of an entity for one rule.
func readJobsOfRule(ctx context.Context, c *client, rule web.Rule, key string) (web.Entity, []byte, error) {
	e, _, err := readEntity(ctx, c, rule.Entity, key)
	if err != nil {
		return e, nil, err
	}
	e.Jobs.Items = slices.DeleteFunc(e.Jobs.Items, func(j web.Job) bool { return j.Rule != rule.Name })
	e.History.Items = slices.DeleteFunc(e.History.Items, func(j web.EndedJob) bool { return j.Rule != rule.Name })
	e.Alerts.Items = slices.DeleteFunc(e.Alerts.Items, func(a web.Alert) bool { return a.Rule != rule.Name })
	raw, err := json.Marshal(e)
	return e, raw, err
}

func printEntity(io *cli, entity web.Entity, descriptions map[string]string) error {
	s := newKeyValues(io)
	for i := len(entity.History.Items) - 1; i >= 0; i-- {
		e := entity.History.Items[i]
		printJobHistory(s, e.Job, entity.Alerts.Items, descriptions[e.Rule])
		s.painted("ended", outcomeColour(e.Outcome), outcomeText(e))
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
		printJobHistory(s, j, entity.Alerts.Items, descriptions[j.Rule])
		s.painted("status", statusColour(j.Status), statusText(j))
		printNextCheck(s, j)
		printAck(s, j.Acknowledged)
	}
	if len(entity.Jobs.Items) == 0 {
		none := "no pending jobs"
		if len(entity.History.Items) == 0 {
			none = "no jobs, pending or ended"
		}
		s.line(entity.Entity, "%s: %s", entity.Key, none)
	}
	return s.end()
}

// printJobHistory prints a job with its timeline and its alerts.
func printJobHistory(s *keyValues, j web.Job, all []web.Alert, description string) {
	s.line("rule", "%s, version %d", j.Rule, j.RuleVersion)
	if description != "" {
		s.line("description", "%s", description)
	}
	s.instant("started", j.Since)
	printTrail(s, j.Trail)
	for i := len(all) - 1; i >= 0; i-- {
		for _, id := range j.Alerts {
			if a := all[i]; a.ID == id {
				s.painted(severityOrStatus(a.Record()), newAlertColour(a.Record()), s.io.exact(a.DecidedAt)+"  "+a.Text)
				printPingOutput(s, a)
			}
		}
	}
}
