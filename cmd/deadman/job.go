package main

import (
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) jobCommand() *cobra.Command {
	cmd := group("job", "Look at what is waited for, and change it by hand")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(
		listing[web.Job]{
			short: "List pending jobs, next due first", path: "/jobs",
			filters: []filter{
				byRule, byEntity, byKey,
				{parameter: "key_prefix", does: "those whose keys begin so only"},
				{parameter: "overdue", does: "those whose slot has come only", kind: filterFlag},
				since("due_after", "", "due"), until("due_before", "", "due"),
			},
			none: "nothing is waited for", header: []string{"next look", "rule", "entity", "key", "step", "looks", "status", "acked"},
			row: jobRow,
		}.command(p),
		p.onJob(&cobra.Command{Use: "get RULE KEY", Short: "Show one pending job", RunE: p.getJob}),
		p.onJob(&cobra.Command{
			Use: "check RULE KEY", Short: "Look at a job now, which may end it and takes no step", RunE: p.checkJob,
		}),
		p.createJobCommand(), p.snoozeCommand(), p.cancelCommand(), p.slotsCommand(),
	)
	return cmd
}

// onJob makes a command take a rule and a key.
func (p *cli) onJob(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = exactly("RULE", "KEY"), p.completeRule
	return cmd
}

func jobRow(p *cli, j web.Job) []cell {
	next := cellOf("")
	switch {
	case !j.NextCheckAt.IsZero():
		next = cellOf(web.Relative(j.NextCheckAt, p.now()))
	case j.PausedAt.IsZero():
		next = dimCell("-") // no check is scheduled
	}
	return []cell{
		next, cellOf(j.Rule), cellOf(j.Entity), cellOf(j.Key),
		sayNumber(j.Step), sayNumber(j.Checks), colouredCell(statusColour(j.Status), statusText(j)),
		cellOf(ackedUntil(p, j.Acknowledged)),
	}
}

// ackedUntil formats the end of an acknowledgement. It is empty without one.
func ackedUntil(p *cli, a *web.Acknowledged) string {
	switch {
	case a == nil:
		return ""
	case a.Until.IsZero():
		return "for good"
	}
	return "until " + p.exact(a.Until)
}

// statusText returns the status of a job, marked if it is snoozed.
func statusText(j web.Job) string {
	if j.SnoozedUntil.IsZero() {
		return string(j.Status)
	}
	return string(j.Status) + ", snoozed"
}

// jobPath returns the API path of a job, with its key as a query parameter because any key fits there.
func jobPath(args []string) (string, url.Values) {
	return "/jobs/" + url.PathEscape(args[0]), url.Values{"key": {args[1]}}
}

func (p *cli) getJob(cmd *cobra.Command, args []string) error {
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

func (p *cli) showJob(j web.Job) error {
	s := newSheet(p)
	s.line("rule", "%s, version %d", j.Rule, j.RuleVersion)
	s.line(j.Entity, "%s", j.Key)
	s.painted("status", statusColour(j.Status), string(j.Status))
	s.instant("waits since", j.Since)
	s.instant("paused since", j.PausedAt)
	s.instant("first look", j.FirstCheckAt)
	s.nextLook(j)
	s.instant("snoozed until", j.SnoozedUntil)
	if j.SnoozeIdle {
		s.line("", "which puts nothing off: the next look is later anyhow")
	}
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
	s.acknowledged(j.Acknowledged)
	s.trail(j.Trail)
	s.document("event", j.Event)
	s.document("state", j.State)
	return s.end()
}

// nextLook prints the next check of a pending job, unless the job is paused.
func (s *keyValues) nextLook(j web.Job) {
	if j.NextCheckAt.IsZero() && j.PausedAt.IsZero() {
		s.line("next look", "none until it comes")
	}
	s.instant("next look", j.NextCheckAt)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}

func (p *cli) checkJob(cmd *cobra.Command, args []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	path, query := jobPath(args)
	looked, raw, err := tell[web.CheckResult](cmd.Context(), c, http.MethodPost, path+"/check", query, nil)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	return p.showLooked(looked)
}

func (p *cli) showLooked(l web.CheckResult) error {
	s := newSheet(p)
	switch {
	case l.Ended:
		s.painted("it is over", green, l.Outcome)
	case l.Unknown:
		s.painted("not known", red, "nobody could find out whether it has happened")
	default:
		s.painted("still waiting", yellow, "it has not happened")
	}
	if l.Reason != "" {
		s.line("reason", "%s", l.Reason)
	}
	s.instant("next look", l.Next)
	return s.end()
}
