package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) createJobCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create RULE KEY | create -f FILE", Short: "Begin a wait by hand, as an event would; with -f, those of a file",
		Long: `Begins a wait by hand, as an event would. With -f it begins those of a file, of any number: each line
is an object as POST /api/v1/jobs takes it. A line that is refused keeps no other out, and a key that is waited for
stays as it is, so the same file may be sent again.`,
		Example: `  deadman job create order-unshipped 1234 --event '{"id": "1234", "total": 12.5}' --since -2h
  deadman job create -f waits.ndjson    # {"rule": "order-unshipped", "key": "1234", "event": {...}, "since": "..."}`,
		ValidArgsFunction: p.completeRule,
	}
	event := cmd.Flags().String("event", "", "what the rule sees as the event: JSON, @FILE, or - for the standard input")
	since := cmd.Flags().String("since", "", "when the wait began (15:04, 2026-01-31T15:04:05Z, -2h; default: now)")
	file := cmd.Flags().StringP("file", "f", "", "a file of waits, a JSON object a line; - is the standard input")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *file == "" {
			return exactly("RULE", "KEY")(cmd, args)
		}
		if *event != "" || *since != "" || len(args) > 0 {
			return usage("%s -f takes no RULE, KEY, --event or --since: each line of the file says its own", cmd.CommandPath())
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *file != "" {
			return p.createJobs(cmd, *file)
		}
		j := newJob{Rule: args[0], Key: args[1]}
		var err error
		if j.Event, err = p.jsonFlag("event", *event); err != nil {
			return err
		}
		if j.Since, err = p.instantFlag("since", *since, p.now()); err != nil {
			return err
		}
		return p.printJobAction(cmd, "/jobs", nil, j)
	}
	return cmd
}

// newJob is the body of a request to create a job.
type newJob struct {
	Rule  string          `json:"rule"`
	Key   string          `json:"key"`
	Event json.RawMessage `json:"event,omitempty"`
	Since time.Time       `json:"since,omitzero"`
}

func (p *cli) snoozeCommand() *cobra.Command {
	cmd := p.onJob(&cobra.Command{
		Use: "snooze RULE KEY", Short: "Let a job rest for a while; what resolves it ends it all the same",
		Example: `  deadman job snooze order-unshipped 1234 --for 2h
  deadman job snooze order-unshipped 1234 --until "2026-01-31 09:00"`,
	})
	rest := cmd.Flags().String("for", "", "for this long, such as 2h")
	until := cmd.Flags().String("until", "", "until this time (15:04, 2026-01-31T15:04:05Z, +2h)")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if (*rest == "") == (*until == "") {
			return usage("%s takes --for or --until, one of them", cmd.CommandPath())
		}
		if err := checkSpan("for", *rest); err != nil {
			return err
		}
		body := web.SnoozeBody{For: *rest}
		if body.Until, err = p.instantFlag("until", *until, p.now()); err != nil {
			return err
		}
		path, query := jobPath(args)
		return p.printJobAction(cmd, path+"/snooze", query, body)
	}
	return cmd
}

// printJobAction requests an action on a job and prints the resulting job.
func (p *cli) printJobAction(cmd *cobra.Command, path string, query url.Values, body any) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	j, raw, err := tell[web.Job](cmd.Context(), c, http.MethodPost, path, query, body)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	return p.showJob(j)
}

func (p *cli) cancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel RULE KEY", Short: "End the wait for one key; with --entity, all waits for it",
		Example: `  deadman job cancel order-unshipped 1234
  deadman job cancel --entity order 1234`,
		ValidArgsFunction: p.completeRule,
	}
	entity := cmd.Flags().String("entity", "", "end the jobs of all rules for a KEY of this kind of thing")
	yes := addYes(cmd.Flags())
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *entity != "" {
			return exactly("KEY")(cmd, args)
		}
		return exactly("RULE", "KEY")(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *entity != "" {
			return p.cancelEntity(cmd, *entity, args[0], *yes)
		}
		return p.cancelJob(cmd, args)
	}
	return cmd
}

func (p *cli) cancelJob(cmd *cobra.Command, args []string) error {
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
	_, err = fmt.Fprintf(p.out, "cancelled: rule %s no longer waits for %s\n", sanitize(args[0]), sanitize(args[1]))
	return err
}

func (p *cli) cancelEntity(cmd *cobra.Command, entity, key string, yes bool) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	if err := p.confirm(yes, fmt.Sprintf("end all waits for %s %s?", entity, key)); err != nil {
		return err
	}
	path := "/entities/" + url.PathEscape(entity) + "/" + url.PathEscape(key) + "/jobs"
	ended, raw, err := tell[web.Cancelled](cmd.Context(), c, http.MethodDelete, path, nil, nil)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	_, err = fmt.Fprintf(p.out, "cancelled: %s for %s %s\n", number(ended.Cancelled, "wait"), sanitize(entity), sanitize(key))
	return err
}
