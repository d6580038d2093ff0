package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newJobSnoozeCmd(io *cli) *cobra.Command {
	cmd := onJob(io, &cobra.Command{
		Use: "snooze RULE KEY", Short: "Postpone the next check of a job; events still resolve it",
		Example: `  deadman job snooze order-unshipped 1234 --for 2h
  deadman job snooze order-unshipped 1234 --until "2026-01-31 09:00"`,
	})
	rest := textFlag(cmd.Flags(), "for", "duration", "", "duration of the snooze, such as 2h")
	until := textFlag(cmd.Flags(), "until", "time", "", "end of the snooze (15:04, 2026-01-31T15:04:05Z, +2h)")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		body, err := snoozeRequest(io, cmd, *rest, *until)
		if err != nil {
			return err
		}
		path, query := jobPath(args)
		return postJob(io, cmd, path+"/snooze", query, body)
	}
	return cmd
}

// postJob requests an action on a job and prints the resulting job.
func postJob(io *cli, cmd *cobra.Command, path string, query url.Values, body any) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	j, raw, err := call[web.Job](cmd.Context(), c, http.MethodPost, path, query, body)
	if err != nil {
		return err
	}
	return io.write(raw, func() error { return printJob(io, j) })
}

func newJobCancelCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel RULE KEY | cancel --rule RULE", Short: "Cancel a job, or all jobs of a filter",
		Long: `Cancels a pending job, or all pending jobs that match the filters, whatever their number.
Their open alerts are resolved. The key of a heartbeat is not watched any more until its next
report; deadman heartbeat list names such keys of a rule. Filters require confirmation on a
terminal, not in a script; --all requires --yes there.`,
		Example: `  deadman job cancel order-unshipped 1234
  deadman job cancel --entity order 1234
  deadman job cancel --rule order-unshipped --key-prefix 12 --reason "shipped by hand"`,
		Args: cobra.MaximumNArgs(2), ValidArgsFunction: completeRule(io),
	}
	var request web.CancelAllRequest
	match := &request.Match
	cmd.Flags().StringVar(&request.Reason, "reason", "", "reason, kept in the history and the audit log")
	cmd.Flags().StringVar((*string)(&match.Rule), "rule", "", "all jobs of this rule")
	cmd.Flags().StringVar((*string)(&match.Entity), "entity", "", "all jobs of this entity type, or of KEY of it")
	cmd.Flags().StringVar((*string)(&match.KeyPrefix), "key-prefix", "", "all jobs of keys with this prefix")
	cmd.Flags().BoolVar(&match.All, "all", false, "all pending jobs")
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *match == (web.JobMatch{}) {
			if err := exactly("RULE", "KEY")(cmd, args); err != nil {
				return err
			}
			return cancelJob(io, cmd, args, request.Reason)
		}
		switch {
		case len(args) == 1 && match.Entity != "" && match.KeyPrefix == "":
			match.Key = web.Identifier(args[0])
		case len(args) > 0:
			return usage("%s accepts filters without arguments, or KEY with --entity; got %s", commandName(cmd), number(len(args), "argument"))
		}
		return cancelJobs(io, cmd, request, *yes)
	}
	return cmd
}

// cancelJobs cancels all pending jobs that match, in as many requests as it takes.
func cancelJobs(io *cli, cmd *cobra.Command, request web.CancelAllRequest, yes bool) error {
	if request.Match.All && !yes && !isTerminal(io.in) {
		return usage("%s --all cancels every pending job; without a terminal it requires --yes", commandName(cmd))
	}
	c, err := io.client()
	if err != nil {
		return err
	}
	if !yes {
		counting := request
		counting.DryRun = true
		counted, _, err := call[web.CancelAllResult](cmd.Context(), c, http.MethodPost, "/jobs/cancel", nil, counting)
		if err != nil {
			return err
		}
		many := number(int(counted.Matched), "pending job")
		if counted.More {
			many = "more than " + many
		}
		if err := io.confirm(counted.Matched == 0, "Cancel "+many+"? deadman job list shows them."); err != nil {
			return err
		}
	}
	var sum web.CancelAllResult
	for {
		did, _, err := call[web.CancelAllResult](cmd.Context(), c, http.MethodPost, "/jobs/cancel", nil, request)
		if err != nil {
			return err
		}
		sum.Cancelled += did.Cancelled
		sum.Ended += did.Ended
		if sum.More = did.More; !did.More || did.Cancelled == 0 {
			break
		}
		if _, err := fmt.Fprintf(io.err, "%s cancelled\n", number(int(sum.Cancelled), "job")); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	return io.write(raw, func() error {
		result := fmt.Sprintf("cancelled: %s", number(int(sum.Cancelled), "job"))
		if sum.More {
			result += "; the requests timed out, run the command again for the others"
		}
		return printCounts(io, result, "job", []countReason{{sum.Ended, "not cancelled: they ended or changed meanwhile"}})
	})
}

func cancelJob(io *cli, cmd *cobra.Command, args []string, reason string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	path, query := jobPath(args)
	if query == nil {
		query = make(url.Values)
	}
	if reason != "" {
		query.Set("reason", reason)
	}
	if _, err := c.request(cmd.Context(), http.MethodDelete, path, query, nil, nil); err != nil {
		return err
	}
	return io.report(map[string]string{"rule": args[0], "key": args[1], "outcome": "cancelled"}, "cancelled: job of rule %s for key %s\n", sanitize(args[0]), sanitize(args[1]))
}
