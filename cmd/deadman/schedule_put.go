package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newSchedulePutCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "put RULE ID --schedule SCHEDULE | put -f FILE", Short: "Create or replace a stored schedule, or change those of a file",
		Long: `Creates or replaces a stored schedule of a rule whose trigger has schedule: "@stored". With -f it
changes the schedules of a file of any size: each line is a JSON object as accepted by
POST /api/v1/schedules/bulk, which creates, replaces or deletes one schedule. An invalid line does
not affect the others. The same file can be sent again. Lines that the node cannot take at the moment
(503) are sent up to five more times.`,
		Example: `  deadman schedule put report-due customer-1234 --schedule "30 8 * * MON-FRI" --zone Europe/Berlin
  deadman schedule put -f schedules.ndjson    # {"rule": "report-due", "id": "customer-1", "schedule": "@every 90m"}`,
		ValidArgsFunction: completeRule(io),
	}
	schedule := textFlag(cmd.Flags(), "schedule", "text", "", `crontab, @every DURATION or @at TIME, such as "@every 90m"`)
	zone := textFlag(cmd.Flags(), "zone", "zone", "", "time zone of the crontab, such as Europe/Berlin (default: UTC)")
	data := textFlag(cmd.Flags(), "data", "json", "", "body of the events: JSON, @FILE, or - for standard input (default: that of the rule)")
	disabled := cmd.Flags().Bool("disabled", false, "store the schedule without ticks")
	file := new(string)
	cmd.Flags().VarP(typedText{file, "file"}, "file", "f", "file of schedules, one JSON object per line; - for standard input")
	complete(cmd, "data", completeFiles("json"))
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *file == "" {
			if err := exactly("RULE", "ID")(cmd, args); err != nil {
				return err
			}
			if *schedule == "" {
				return usage(`%s requires --schedule; give a crontab, "@every DURATION" or "@at TIME"`, commandName(cmd))
			}
			return nil
		}
		if *schedule != "" || *zone != "" || *data != "" || *disabled || len(args) > 0 {
			return usage("%s -f accepts no RULE, ID, --schedule, --zone, --data or --disabled; each line of the file has its own", commandName(cmd))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if *file != "" {
			return loadFile(io, cmd, *file, &changedSchedules{web.ScheduleBulkResult{RefusedLines: []web.RefusedLine{}}})
		}
		enabled := !*disabled
		request := web.ScheduleRequest{Schedule: *schedule, Zone: *zone, Enabled: &enabled}
		if request.Data, err = io.jsonFlag("data", *data); err != nil {
			return err
		}
		return putSchedule(io, cmd, args, request)
	}
	return cmd
}

// putSchedule creates or replaces a schedule, and prints it.
func putSchedule(io *cli, cmd *cobra.Command, args []string, request web.ScheduleRequest) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	path, query := schedulePath(args)
	s, raw, err := call[web.Schedule](cmd.Context(), c, http.MethodPut, path, query, request)
	if err != nil {
		return err
	}
	return io.write(raw, func() error { return printSchedule(io, s) })
}

// changedSchedules is the result of a file of schedules.
type changedSchedules struct{ web.ScheduleBulkResult }

func (s *changedSchedules) path() string      { return "/schedules/bulk" }
func (s *changedSchedules) value() any        { return s.ScheduleBulkResult }
func (s *changedSchedules) refusedErr() error { return unmetPut.err() }
func (s *changedSchedules) again() string     { return "schedules that are as in the file stay unchanged" }

func (s *changedSchedules) progress() string {
	return number(s.Created+s.Updated+s.Deleted, "schedule") + " changed"
}

func (s *changedSchedules) refusals() (all *int, kept *[]web.RefusedLine) {
	return &s.Refused, &s.RefusedLines
}

// warning returns a text about schedules without a further tick, or an empty one.
func (s *changedSchedules) warning() string {
	if s.Ended == 0 {
		return ""
	}
	lines := strings.Trim(fmt.Sprint(s.EndedLines[:min(len(s.EndedLines), refusedShown)]), "[]")
	if s.Ended > refusedShown {
		lines += " …"
	}
	return number(s.Ended, "enabled schedule") + " without a tick after now, such as @at with a past time (lines " + lines + "); no event is emitted for them"
}

func (s *changedSchedules) add(response []byte, after int) ([]web.RefusedLine, error) {
	var a web.ScheduleBulkResult
	if err := json.Unmarshal(response, &a); err != nil {
		return nil, err
	}
	s.Created += a.Created
	s.Updated += a.Updated
	s.Unchanged += a.Unchanged
	s.Deleted += a.Deleted
	s.Unknown += a.Unknown
	s.Ended += a.Ended
	for _, line := range a.EndedLines {
		if len(s.EndedLines) < refusedKept {
			s.EndedLines = append(s.EndedLines, after+line)
		}
	}
	return a.RefusedLines, nil
}

func (s *changedSchedules) counts() []loadCount {
	return []loadCount{
		{"created", s.Created, true},
		{"updated", s.Updated, true},
		{"unchanged", s.Unchanged, false},
		{"deleted", s.Deleted, false},
		{"unknown", s.Unknown, false},
		{"ended", s.Ended, false},
		{"refused", s.Refused, false},
	}
}
