package main

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// Filters of ticks by what went wrong.
var (
	byLate   = filter{parameter: "late", does: "ticks that were late by this time or more, such as 10s", kind: filterSpan}
	byMissed = filter{parameter: "missed", does: "ticks that stand for missed ones", kind: filterFlag}
)

// newRuleTicksCmd lists the applied ticks of a rule.
func newRuleTicksCmd(io *cli) *cobra.Command {
	cmd := listing[web.Tick]{
		use: "ticks", short: "List the applied ticks of a rule with a schedule, newest first", args: []string{"RULE"},
		of: func(args []string) string { return rulePath(args[0]) + "/ticks" },
		filters: []filter{
			{parameter: "outcome", does: "filter by outcome, such as emitted or skipped", values: []string{
				string(futurejobs.TickStarted), string(futurejobs.TickEmitted), string(futurejobs.TickPaused), string(futurejobs.TickSkipped), string(futurejobs.TickExpired),
			}},
			since("from", "from", "ticks"), until("to", "to", "ticks"), byLate, byMissed,
		},
		none: "no ticks", drop: []string{"attempts", "tick", "event"}, elsewhere: ticksOfSchedules,
		header: []string{"when", "tick", "outcome", "late", "missed", "attempts", "event"},
		row: func(io *cli, t web.Tick) []cell {
			return []cell{
				cellOf(io.relative(t.Tick)), cellOf(io.exact(t.Tick)), tickOutcomeCell(t.Outcome), lateCell(t.Late), numberCell(t.Missed), numberCell(t.Attempts), cellOf(t.EventID),
			}
		},
	}.command(io)
	cmd.Example = "  deadman rule ticks import-due --from -7d --outcome skipped"
	cmd.ValidArgsFunction = completeRule(io)
	return cmd
}

// ticksOfSchedules names the command that lists the ticks of stored schedules, if the rule at a path of ticks has any. It is a
// hint only, so an error leaves it out.
func ticksOfSchedules(ctx context.Context, c *client, path string) string {
	rule, err := url.PathUnescape(strings.TrimSuffix(strings.TrimPrefix(path, rulePath("")), "/ticks"))
	if err != nil {
		return ""
	}
	stored, _, err := get[web.Page[web.Schedule]](ctx, c, "/schedules", url.Values{byRule.parameter: {rule}, "limit": {"1"}})
	if err != nil || len(stored.Items) == 0 {
		return ""
	}
	return "; the ticks of stored schedules are listed by deadman schedule ticks " + sanitize(rule)
}

// tickOutcomeCell formats the outcome of a tick. Ticks that were too late, or whose schedules cannot be read, stand out.
func tickOutcomeCell(outcome string) cell {
	switch futurejobs.TickOutcome(outcome) {
	case futurejobs.TickSkipped, futurejobs.TickExpired, futurejobs.TickFailed:
		return colouredCell(red, outcome)
	case futurejobs.TickPaused, futurejobs.TickCanceled:
		return dimCell("%s", outcome)
	}
	return cellOf(outcome)
}
