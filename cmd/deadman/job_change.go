package main

import (
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
		if (*rest == "") == (*until == "") {
			return usage("%s requires either --for or --until", commandName(cmd))
		}
		if err := checkSpan("for", *rest); err != nil {
			return err
		}
		body := web.SnoozeRequest{For: *rest}
		if body.Until, err = io.instantFlag("until", *until, io.now()); err != nil {
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
		Use: "cancel RULE KEY", Short: "Cancel a job, or all jobs of an entity",
		Example: `  deadman job cancel order-unshipped 1234
  deadman job cancel --entity order 1234`,
		ValidArgsFunction: completeRule(io),
	}
	reason := cmd.Flags().String("reason", "", "reason, kept in the history and the audit log")
	entity := cmd.Flags().String("entity", "", "cancel the jobs of all rules for KEY of this entity")
	yes := addYes(cmd.Flags())
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *entity != "" {
			return exactly("KEY")(cmd, args)
		}
		return exactly("RULE", "KEY")(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *entity != "" && *reason != "" {
			return usage("%s accepts only one of --entity and --reason", commandName(cmd))
		}
		if *entity != "" {
			return cancelEntity(io, cmd, *entity, args[0], *yes)
		}
		return cancelJob(io, cmd, args, *reason)
	}
	return cmd
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

func cancelEntity(io *cli, cmd *cobra.Command, entity, key string, yes bool) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	if err := io.confirm(yes, fmt.Sprintf("Cancel all jobs of %s %s?", entity, key)); err != nil {
		return err
	}
	path := "/entities/" + url.PathEscape(entity) + "/" + url.PathEscape(key) + "/jobs"
	ended, raw, err := call[web.CancelResult](cmd.Context(), c, http.MethodDelete, path, nil, nil)
	if err != nil {
		return err
	}
	if io.output == asJSON {
		return writeJSON(io.out, raw)
	}
	_, err = fmt.Fprintf(io.out, "cancelled: %s of %s %s\n", number(ended.Cancelled, "job"), sanitize(entity), sanitize(key))
	return err
}
