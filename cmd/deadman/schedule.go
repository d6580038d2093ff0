package main

import (
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

func newScheduleCmd(io *cli) *cobra.Command {
	cmd := group("schedule", "Create, list and delete stored schedules")
	cmd.Long = `Changes and shows the stored schedules of a rule whose trigger has schedule: "@stored". Each tick of
a schedule emits the event of the rule.`
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(
		newSchedulePutCmd(io),
		onSchedule(io, &cobra.Command{Use: "get RULE ID", Short: "Show a stored schedule and its next five ticks", RunE: io.with(getSchedule)}),
		newScheduleListCmd(io),
		onSchedule(io, &cobra.Command{Use: "delete RULE ID", Short: "Delete a stored schedule", RunE: io.with(deleteSchedule)}),
		newScheduleTicksCmd(io),
	)
	return cmd
}

// onSchedule makes a command take a rule and the id of a schedule.
func onSchedule(io *cli, cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = exactly("RULE", "ID"), completeRule(io)
	return cmd
}

// schedulePath returns the API path of a schedule, with its id as a query parameter because any id fits there.
func schedulePath(args []string) (string, url.Values) {
	return "/schedules/" + url.PathEscape(args[0]), url.Values{"id": {args[1]}}
}

func newScheduleListCmd(io *cli) *cobra.Command {
	cmd := listing[web.Schedule]{
		short: "List the stored schedules of a rule, by id", args: []string{"RULE"}, path: "/schedules",
		parameters: func(args []string) url.Values { return url.Values{byRule.parameter: {args[0]}} },
		filters:    []filter{{parameter: "prefix", does: "filter by a prefix of the id"}},
		none:       "no stored schedules", drop: []string{"version", "last tick", "zone"}, room: least, // ids stay whole
		header: []string{"next tick", "id", "schedule", "zone", "enabled", "last tick", "version"},
		row: func(io *cli, s web.Schedule) []cell {
			return []cell{
				relativeCell(io, s.NextAt, "-"), cellOf(s.ID), cellOf(s.Schedule), cellOf(zoneOf(s)), enabledCell(s), relativeCell(io, s.LastAt, "-"), numberCell(s.Version),
			}
		},
	}.command(io)
	cmd.Example = "  deadman schedule list report-due --prefix customer-"
	cmd.ValidArgsFunction = completeRule(io)
	return cmd
}

// zoneOf returns the zone of a schedule, also if it is the default.
func zoneOf(s web.Schedule) string {
	if s.Zone == "" {
		return "UTC"
	}
	return s.Zone
}

func enabledCell(s web.Schedule) cell {
	if s.Inactive {
		return colouredCell(yellow, "inactive")
	}
	if s.Paused && s.Enabled {
		return colouredCell(yellow, "paused")
	}
	if s.Enabled {
		return cellOf("yes")
	}
	return colouredCell(yellow, "no")
}

func getSchedule(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	path, query := schedulePath(args)
	s, raw, err := get[web.Schedule](cmd.Context(), c, path, query)
	if err != nil {
		return err
	}
	return io.write(raw, func() error { return printSchedule(io, s) })
}

func printSchedule(io *cli, s web.Schedule) error {
	kv := newKeyValues(io)
	kv.line("rule", "%s", s.Rule)
	kv.line("id", "%s", s.ID)
	kv.line("schedule", "%s", s.Schedule)
	kv.line("zone", "%s", zoneOf(s))
	if !s.Enabled {
		kv.painted("enabled", yellow, "no")
	}
	if s.Inactive {
		kv.painted("inactive", yellow, inactiveSchedule)
	}
	if s.Paused {
		kv.painted("paused", yellow, "the rule is paused or not enabled, so ticks pass without events; deadman rule resume "+s.Rule+", or save it as enabled")
	}
	kv.line("version", "%d", s.Version)
	kv.instant("created", s.CreatedAt)
	kv.instant("changed", s.UpdatedAt)
	kv.instant("last tick", s.LastAt)
	if s.NextAt.IsZero() {
		kv.line("next tick", "none")
	}
	name := "next ticks"
	for _, at := range s.Next {
		kv.instant(name, at)
		name = ""
	}
	kv.document("data", s.Data)
	for _, w := range s.Warnings {
		kv.painted("warning", yellow, w)
	}
	return kv.end()
}

// inactiveSchedule is the state of a schedule of a rule with another trigger.
const inactiveSchedule = `the rule has no stored schedules now, so the schedule does not tick; delete it, or give the rule schedule: "@stored" again`

func deleteSchedule(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	path, query := schedulePath(args)
	if _, err := c.request(cmd.Context(), http.MethodDelete, path, query, nil, nil); err != nil {
		return err
	}
	return io.report(map[string]string{"rule": args[0], "deleted": args[1]}, "deleted: schedule %s of rule %s\n", sanitize(args[1]), sanitize(args[0]))
}

// newScheduleTicksCmd lists the ticks of a stored schedule, or of all of a rule.
func newScheduleTicksCmd(io *cli) *cobra.Command {
	cmd := listing[web.ScheduleTick]{
		use: "ticks", short: "List the ticks of a stored schedule, or of all of a rule, newest first", args: []string{"RULE", "[ID]"},
		of: func(args []string) string { return "/schedules/" + url.PathEscape(args[0]) + "/ticks" },
		parameters: func(args []string) url.Values {
			if len(args) == 1 {
				return nil
			}
			return url.Values{"id": {args[1]}}
		},
		filters: []filter{
			{parameter: "outcome", does: "filter by outcome, such as emitted or canceled", values: []string{
				string(futurejobs.TickEmitted), string(futurejobs.TickPlanned), string(futurejobs.TickPaused), string(futurejobs.TickSkipped),
				string(futurejobs.TickCanceled), string(futurejobs.TickUnknown), string(futurejobs.TickFailed),
			}},
			since("from", "from", "ticks"), until("to", "to", "ticks"), byLate, byMissed,
		},
		none: "no ticks", drop: []string{"attempts", "tick", "reason"},
		header: []string{"when", "tick", "id", "outcome", "late", "missed", "attempts", "reason"},
		row: func(io *cli, t web.ScheduleTick) []cell {
			return []cell{
				cellOf(io.relative(t.Tick)), cellOf(io.exact(t.Tick)), cellOf(t.ID), tickOutcomeCell(t.Outcome), lateCell(t.Late), numberCell(t.Missed), numberCell(t.Attempts), cellOf(t.Reason),
			}
		},
	}.command(io)
	cmd.Example = "  deadman schedule ticks report-due customer-1234 --from -7d --outcome canceled\n  deadman schedule ticks report-due --from -7d --outcome failed"
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return exactly("RULE", "ID")(cmd, args)
	}
	cmd.ValidArgsFunction = completeRule(io)
	return cmd
}

// lateCell formats a delay in seconds.
func lateCell(late float64) cell {
	return cellOf(time.Duration(late * float64(time.Second)).Round(time.Millisecond).String())
}
