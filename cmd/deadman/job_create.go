package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newJobCreateCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create RULE KEY | create -f FILE", Short: "Create a job manually, or the jobs of a file",
		Long: `Creates a job manually, as a trigger event would. With -f it creates the jobs of a file of any size:
each line is a JSON object as accepted by POST /api/v1/jobs. An invalid line does not affect the
others. Existing jobs stay unchanged, so the same file can be sent again.`,
		Example: `  deadman job create order-unshipped 1234 --event '{"id": "1234", "total": 12.5}' --since -2h
  deadman job create -f jobs.ndjson    # {"rule": "order-unshipped", "key": "1234", "event": {...}, "since": "..."}`,
		ValidArgsFunction: completeRule(io),
	}
	event := textFlag(cmd.Flags(), "event", "json", "", "body of the trigger event: JSON, @FILE, or - for standard input")
	since := textFlag(cmd.Flags(), "since", "time", "", "start of the job (15:04, 2026-01-31T15:04:05Z, -2h; default: now)")
	file := new(string)
	cmd.Flags().VarP(typedText{file, "file"}, "file", "f", "file of jobs, one JSON object per line; - for standard input")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *file == "" {
			return exactly("RULE", "KEY")(cmd, args)
		}
		if *event != "" || *since != "" || len(args) > 0 {
			return usage("%s -f accepts no RULE, KEY, --event or --since; each line of the file has its own", commandName(cmd))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *file != "" {
			return loadFile(io, cmd, *file, &createdJobs{BulkResult: web.BulkResult{ExistedLines: []int{}, RefusedLines: []web.RefusedLine{}}})
		}
		j := web.JobRequest{Rule: web.Identifier(args[0]), Key: web.Identifier(args[1])}
		var err error
		if j.Event, err = io.jsonFlag("event", *event); err != nil {
			return err
		}
		if j.Since, err = io.sinceFlag("since", *since); err != nil {
			return err
		}
		return postJob(io, cmd, "/jobs", nil, j)
	}
	return cmd
}

// createdJobs is the result of a file of jobs.
type createdJobs struct{ web.BulkResult }

func (j *createdJobs) path() string      { return "/jobs/bulk" }
func (j *createdJobs) value() any        { return j.BulkResult }
func (j *createdJobs) refusedErr() error { return unmetCreate.err() }
func (j *createdJobs) progress() string  { return number(j.Created, "job") + " created" }
func (j *createdJobs) again() string     { return "existing jobs stay unchanged" }

func (j *createdJobs) refusals() (all *int, kept *[]web.RefusedLine) {
	return &j.Refused, &j.RefusedLines
}

func (j *createdJobs) add(response []byte, after int) ([]web.RefusedLine, error) {
	var a web.BulkResult
	if err := json.Unmarshal(response, &a); err != nil {
		return nil, err
	}
	j.Created += a.Created
	j.Existed += a.Existed
	for _, line := range a.ExistedLines {
		if len(j.ExistedLines) < refusedKept {
			j.ExistedLines = append(j.ExistedLines, after+line)
		}
	}
	return a.RefusedLines, nil
}

func (j *createdJobs) counts() []loadCount {
	return []loadCount{{"created", j.Created, true}, {"existing", j.Existed, false}, {"refused", j.Refused, false}}
}
