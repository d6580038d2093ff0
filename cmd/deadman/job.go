package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *program) jobCommand() *cobra.Command {
	cmd := group("job", "Look at what is waited for, and end it")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(
		listing[web.Job]{
			short: "List pending jobs, next due first", path: "/jobs",
			filters: [][2]string{
				byRule, byEntity, byKey,
				{"due_after", "due at or after this instant (2026-01-31T15:04:05Z)"},
				{"due_before", "due before this instant"},
			},
			none: "nothing is waited for", header: []string{"next look", "rule", "entity", "key", "step", "looks", "status"},
			row: jobRow,
		}.command(p),
		&cobra.Command{Use: "get RULE KEY", Short: "Show one pending job", Args: exactly("RULE", "KEY"), RunE: p.getJob},
		&cobra.Command{Use: "cancel RULE KEY", Short: "End the wait for one key", Args: exactly("RULE", "KEY"), RunE: p.cancelJob},
	)
	return cmd
}

func flagOf(parameter string) string { return strings.ReplaceAll(parameter, "_", "-") }

func jobRow(p *program, j web.Job) []cell {
	return []cell{
		say(web.Relative(j.NextCheckAt, p.now())), say(j.Rule), say(j.Entity), say(j.Key),
		sayNumber(j.Step), sayNumber(j.Checks), sayIn(statusColour(j.Status), string(j.Status)),
	}
}

// jobPath is where a job is, and its key as a parameter, which every key fits.
func jobPath(args []string) (string, url.Values) {
	return "/jobs/" + url.PathEscape(args[0]), url.Values{"key": {args[1]}}
}

func (p *program) getJob(cmd *cobra.Command, args []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	path, query := jobPath(args)
	j, raw, err := get[web.Job](cmd.Context(), c, path, query)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	return p.showJob(j)
}

func (p *program) showJob(j web.Job) error {
	s := newSheet(p)
	s.line("rule", "%s, version %d", j.Rule, j.RuleVersion)
	s.line(j.Entity, "%s", j.Key)
	s.painted("status", statusColour(j.Status), string(j.Status))
	s.instant("waits since", j.Since)
	s.instant("first look", j.FirstCheckAt)
	s.instant("next look", j.NextCheckAt)
	s.line("steps taken", "%d", j.Step)
	s.line("looks", "%d decided, %d in all", j.CheckCount, j.Checks)
	if j.Checks > 0 {
		s.line("they took", "%s in all, %s the slowest", seconds(j.CheckSecondsTotal), seconds(j.CheckSecondsMax))
	}
	s.instant("last began", j.StartedAt)
	s.instant("last decided", j.CompletedAt)
	s.instant("last failed", j.FailedAt)
	for _, id := range j.Alerts {
		s.line("alert", "%s", id)
	}
	s.document("event", j.Event)
	s.document("state", j.State)
	return s.end()
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}

func (p *program) cancelJob(cmd *cobra.Command, args []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	path, query := jobPath(args)
	if _, err := c.ask(cmd.Context(), http.MethodDelete, path, query, nil, nil); err != nil {
		return err
	}
	if p.output == asJSON {
		return writeValue(p.out, map[string]string{"rule": args[0], "key": args[1], "outcome": "cancelled"})
	}
	_, err = fmt.Fprintf(p.out, "cancelled: rule %s no longer waits for %s\n", plain(args[0]), plain(args[1]))
	return err
}
