package main

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newJobCmd(io *cli) *cobra.Command {
	cmd := group("job", "List, inspect and change pending jobs")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(
		listing[web.Job]{
			short: "List pending jobs, next due first", path: "/jobs",
			filters: []filter{
				byRule, byEntity, byKey,
				{parameter: "key_prefix", does: "filter by a prefix of the key"},
				{parameter: "due", does: "only due jobs", kind: filterFlag},
				since("due_after", "", "due"), until("due_before", "", "due"),
				{parameter: "where", does: `filter by fields of event and state: 'event.customer = "acme"'`},
			},
			none: "no pending jobs", drop: []string{"checks", "entity", "acked", "step"}, room: least, // keys stay whole
			header: []string{"next check", "rule", "entity", "key", "step", "checks", "status", "acked", "next alert"},
			row:    jobRow,
		}.command(io),
		onJob(io, &cobra.Command{Use: "get RULE KEY", Short: "Show one pending job", RunE: io.with(getJob)}),
		onJob(io, &cobra.Command{
			Use: "check RULE KEY", Short: "Check a job now; it may end, but no escalation step is raised", RunE: io.with(checkJob),
		}),
		newJobCreateCmd(io), newJobSnoozeCmd(io), newJobCancelCmd(io), newJobSlotsCmd(io),
	)
	return cmd
}

// onJob makes a command take a rule and a key.
func onJob(io *cli, cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = exactly("RULE", "KEY"), completeRule(io)
	return cmd
}

func jobRow(io *cli, j web.Job) []cell {
	next := cellOf("")
	switch {
	case !j.NextCheckAt.IsZero():
		next = cellOf(io.relative(j.NextCheckAt))
	case j.PausedAt.IsZero():
		next = dimCell("-") // no check is scheduled
	}
	return []cell{
		next, cellOf(j.Rule), cellOf(j.Entity), cellOf(j.Key),
		numberCell(j.Step), numberCell(j.CheckAttempts), colouredCell(statusColour(j.Status), statusText(j)),
		cellOf(ackedUntil(io, j.Acknowledged)), nextAlertCell(j),
	}
}

// nextAlertCell formats the alert that a job raises next.
func nextAlertCell(j web.Job) cell {
	if j.NextAlert == nil || j.NextAlert.Step == "" {
		return dimCell("%s", nextAlertText(j))
	}
	return cellOf(j.NextAlert.Text())
}

// ackedUntil formats the end of an acknowledgement. It is empty without one.
func ackedUntil(io *cli, a *web.Acknowledged) string {
	switch {
	case a == nil:
		return ""
	case a.Until.IsZero():
		return "no end"
	}
	return "until " + io.exact(a.Until)
}

// statusText returns the status of a job, marked if a snooze delays its next check.
func statusText(j web.Job) string {
	if j.SnoozedUntil.IsZero() || j.SnoozeIneffective {
		return string(j.Status)
	}
	return string(j.Status) + ", snoozed"
}

// jobPath returns the API path of a job, with its key as a query parameter because any key fits there.
func jobPath(args []string) (string, url.Values) {
	return "/jobs/" + url.PathEscape(args[0]), url.Values{"key": {args[1]}}
}

func getJob(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	path, query := jobPath(args)
	j, raw, err := get[web.Job](cmd.Context(), c, path, query)
	if err != nil {
		return err
	}
	return io.write(raw, func() error { return printJob(io, j) })
}

func printJob(io *cli, j web.Job) error {
	s := newKeyValues(io)
	s.line("rule", "%s, version %d", j.Rule, j.RuleVersion)
	s.line(j.Entity, "%s", j.Key)
	s.painted("status", statusColour(j.Status), string(j.Status))
	s.instant("started", j.Since)
	s.instant("paused since", j.PausedAt)
	s.instant("first check", j.FirstCheckAt)
	printNextCheck(s, j)
	s.instant("snoozed until", j.SnoozedUntil)
	if j.SnoozeIneffective {
		s.line("", "without effect: the next check is already later")
	}
	s.line("steps taken", "%d", j.Step)
	s.line("checks", "%d decided, %d in total", j.CheckCount, j.CheckAttempts)
	if j.CheckAttempts > 0 {
		s.line("check time", "%s in total, slowest %s", seconds(j.CheckSecondsTotal), seconds(j.CheckSecondsMax))
	}
	s.instant("last started", j.StartedAt)
	s.instant("last finished", j.CompletedAt)
	s.instant("last failed", j.FailedAt)
	for _, id := range j.Alerts {
		s.line("alert", "%s", id)
	}
	printAck(s, j.Acknowledged)
	printTrail(s, j.Trail)
	s.document("event", j.Event)
	s.document("state", j.State)
	return s.end()
}

// printNextCheck prints the next check of a pending job, unless the job is paused.
func printNextCheck(s *keyValues, j web.Job) {
	if j.NextCheckAt.IsZero() && j.PausedAt.IsZero() {
		s.line("next check", "none scheduled")
	}
	s.instant("next check", j.NextCheckAt)
	if next := j.NextAlert; next != nil {
		s.line("next alert", "%s", nextAlertText(j))
		if !next.At.Equal(j.NextCheckAt) {
			s.instant("", next.At)
		}
	}
}

// nextAlertText returns the next alert in one line. An acknowledgement is the reason that a job has none.
func nextAlertText(j web.Job) string {
	text := j.NextAlert.Text()
	if rest, is := strings.CutPrefix(text, "none"); is && j.Acknowledged != nil {
		return "none, acknowledged" + rest
	}
	return text
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}

func checkJob(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	path, query := jobPath(args)
	result, raw, err := call[web.CheckResult](cmd.Context(), c, http.MethodPost, path+"/check", query, nil)
	if err != nil {
		return err
	}
	return io.write(raw, func() error { return printCheckResult(io, result) })
}

func printCheckResult(io *cli, l web.CheckResult) error {
	s := newKeyValues(io)
	switch {
	case l.Ended:
		s.painted("ended", green, l.Outcome)
	case l.Undetermined:
		s.painted("undetermined", red, "the check could not get an answer")
	default:
		s.painted("pending", yellow, "the expected event has not happened")
	}
	if l.Reason != "" {
		s.line("reason", "%s", l.Reason)
	}
	s.instant("next check", l.NextCheckAt)
	return s.end()
}

// printTrail prints the timeline of a job, oldest first.
func printTrail(s *keyValues, entries []web.TrailEntry) {
	for i, e := range entries {
		name := ""
		if i == 0 {
			name = "timeline"
		}
		s.line(name, "%s  %s", s.io.exact(e.At), trailText(s.io, e))
	}
}

// trailText formats a trail entry.
func trailText(io *cli, e web.TrailEntry) string {
	parts := []string{actionText(e)}
	if late := time.Duration(e.LatenessSeconds * float64(time.Second)).Truncate(time.Second); late > 0 {
		parts = append(parts, late.String()+" late")
	}
	for _, more := range []struct{ what, value string }{{"", e.Reason}, {"found ", e.Values}, {"by ", e.By}} {
		if more.value != "" {
			parts = append(parts, more.what+more.value)
		}
	}
	switch {
	case e.NoNextCheck:
		parts = append(parts, "no further check until a signal arrives")
	case !e.Next.IsZero():
		parts = append(parts, "next "+io.exact(e.Next))
	}
	return strings.Join(parts, "; ")
}

// actionText describes the action of a trail entry.
func actionText(e web.TrailEntry) string {
	switch {
	case e.Kind != "check":
		return map[string]string{
			"update": "updated", "pause": "paused", "resume": "resumed", "snooze": "snoozed", "move": "moved to another rule version", "reschedule": "rescheduled: a calendar changed",
			"acknowledge": "acknowledged", "unacknowledge": "acknowledgement removed", "fail": "run failed", "skip": "past steps skipped: " + e.Step,
		}[e.Kind]
	case e.Suppressed && e.Step != "":
		return "checked: step " + e.Step + " suppressed by an acknowledgement"
	case e.Suppressed:
		return "checked: step suppressed by an acknowledgement"
	case e.Outcome != "":
		return "checked: ended, " + string(e.Outcome)
	case e.Step != "":
		return "checked: step " + e.Step
	case e.Reason != "":
		return "checked: undetermined"
	}
	return "checked: nothing due"
}
