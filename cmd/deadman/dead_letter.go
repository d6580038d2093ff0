package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"deadman/web"
)

// deadLetterFilters are the filters of dead letters.
var deadLetterFilters = []filter{
	byRule,
	{parameter: "subject", does: "filter by subject"},
	{parameter: "reason", does: "filter by reason, exact text"},
}

func newDeadLetterCmd(io *cli) *cobra.Command {
	cmd := group("dead-letter", "List, retry and drop events that could not be processed")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(
		listing[web.DeadLetter]{
			short: "List dead letters, newest first", path: "/dead-letters", filters: deadLetterFilters,
			none: "no dead letters", drop: []string{"seq", "stream", "events", "subject"}, header: []string{"id", "refused", "rule", "subject", "stream", "seq", "events", "reason"},
			row: func(io *cli, d web.DeadLetter) []cell {
				return []cell{
					numberCell(d.ID), cellOf(io.relative(d.At)), cellOf(d.Rule), cellOf(d.Subject), cellOf(d.Stream),
					numberCell(d.Seq), numberCell(max(d.Summarized, 1)), cellOf(d.Reason),
				}
			},
		}.command(io),
		&cobra.Command{Use: "get ID", Short: "Show one dead letter with its event", Args: exactly("ID"), RunE: io.with(getDeadLetter)},
		newDeadLetterReasonsCmd(io),
		newDeadLetterRetryCmd(io), newDeadLetterDropCmd(io),
	)
	return cmd
}

func getDeadLetter(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	d, raw, err := get[web.DeadLetter](cmd.Context(), c, "/dead-letters/"+url.PathEscape(args[0]), nil)
	if err != nil {
		return err
	}
	return io.write(raw, func() error { return printDeadLetter(io, d) })
}

func printDeadLetter(io *cli, d web.DeadLetter) error {
	s := newKeyValues(io)
	s.line("dead letter", "%d", d.ID)
	s.painted("reason", red, d.Reason)
	if d.Rule != "" {
		s.line("rule", "%s", d.Rule)
	}
	s.instant("refused", d.At)
	if d.Retries > 0 {
		s.line("retried", "%s", number(d.Retries, "time"))
		s.instant("last retry", d.LastRetriedAt)
	}
	s.line("subject", "%s", d.Subject)
	s.line("stream", "%s, message %d", d.Stream, d.Seq)
	s.instant("event time", d.EventAt)
	if d.Summarized > 0 {
		s.line("summary", "%d refused events, up to message %d; they are not stored and cannot be retried", d.Summarized, d.LastSeq)
		s.instant("last event", d.LastEventAt)
		return s.end()
	}
	for _, name := range slices.Sorted(maps.Keys(d.Header)) {
		s.line("header", "%s: %s", name, strings.Join(d.Header[name], ", "))
	}
	if d.BodyBase64 != nil {
		s.line("body", "%q (not UTF-8)", d.BodyBase64)
	} else {
		s.line("body", "%s", d.Body)
	}
	return s.end()
}

// deadLetterSelection selects the dead letters of a command, by ids or by a filter.
type deadLetterSelection struct {
	ids                   []string
	rule, subject, reason string
	all                   bool
}

func (l *deadLetterSelection) flags(flags *pflag.FlagSet) {
	flags.StringVar(&l.rule, "rule", "", "dead letters refused by this rule")
	flags.StringVar(&l.subject, "subject", "", "dead letters of this subject")
	flags.StringVar(&l.reason, "reason", "", "dead letters with this reason, exact text")
	flags.BoolVar(&l.all, "all", false, "all dead letters")
}

// parse stores the ids and checks them, and that exactly one kind of selection is given.
func (l *deadLetterSelection) parse(cmd *cobra.Command, ids []string) error {
	for _, id := range ids {
		if n, err := strconv.ParseInt(id, 10, 64); err != nil || n < 1 {
			return usage("%q is not a dead letter id; list the ids with deadman dead-letter list", id)
		}
	}
	l.ids = ids
	ways := 0
	for _, given := range []bool{len(ids) > 0, l.rule+l.subject+l.reason != "", l.all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return usage("%s requires IDs, or filters (--rule, --subject, --reason), or --all", commandName(cmd))
	}
	return nil
}

// query returns the filter for the API.
func (l *deadLetterSelection) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"rule": l.rule, "subject": l.subject, "reason": l.reason} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if l.all {
		q.Set("all", "true")
	}
	return q
}

func newDeadLetterRetryCmd(io *cli) *cobra.Command {
	var selection deadLetterSelection
	cmd := &cobra.Command{
		Use: "retry [ID…]", Short: "Process the events of dead letters again, with the current rules",
		Long: `Processes the events of dead letters again, with the current rules, oldest first, each once.

The events are processed late: events that arrived after them are not processed again. A dead
letter that is refused again stays, with the new reason, and the exit code is 1.`,
		Example: `  deadman dead-letter retry 7 8
  deadman dead-letter retry --rule order-unshipped`,
	}
	selection.flags(cmd.Flags())
	cmd.Args = selection.parse
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := io.client()
		if err != nil {
			return err
		}
		done, err := retryDeadLetters(io, cmd, c, selection)
		if err != nil {
			return err
		}
		return printRetried(io, done)
	}
	return cmd
}

// retryDeadLetters retries the selection in as many requests as necessary.
func retryDeadLetters(io *cli, cmd *cobra.Command, c *client, selection deadLetterSelection) (sum web.RetryResult, err error) {
	add := func(path string, query url.Values) error {
		one, _, err := call[web.RetryResult](cmd.Context(), c, http.MethodPost, path, query, nil)
		sum.Retried, sum.Processed, sum.Refused = sum.Retried+one.Retried, sum.Processed+one.Processed, sum.Refused+one.Refused
		sum.Reason, sum.Next = one.Reason, one.Next
		return err
	}
	for _, id := range selection.ids {
		if err := add("/dead-letters/"+id+"/retry", nil); err != nil {
			return sum, err
		}
		if sum.Reason != "" && io.output != asJSON {
			fmt.Fprintf(io.err, "dead letter %s was refused again: %s\n", id, sanitize(sum.Reason))
		}
	}
	if len(selection.ids) > 0 {
		return sum, nil
	}
	query := selection.query()
	for {
		if err := add("/dead-letters/retry", query); err != nil || sum.Next == 0 {
			return sum, err
		}
		query.Set("after", strconv.FormatInt(sum.Next, 10))
	}
}

func printRetried(io *cli, done web.RetryResult) (err error) {
	if io.output == asJSON {
		err = writeValue(io.out, done)
	} else {
		_, err = fmt.Fprintf(io.out, "retried: %s; %d processed, %d refused again\n", number(done.Retried, "dead letter"), done.Processed, done.Refused)
	}
	if err == nil && done.Refused > 0 {
		return silentError{exitFailure}
	}
	return err
}

func newDeadLetterDropCmd(io *cli) *cobra.Command {
	var selection deadLetterSelection
	cmd := &cobra.Command{
		Use: "drop [ID…]", Short: "Delete dead letters without processing their events",
		Example: `  deadman dead-letter drop 7 8
  deadman dead-letter drop --subject orders.test -y`,
	}
	selection.flags(cmd.Flags())
	yes := addYes(cmd.Flags())
	cmd.Args = selection.parse
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := io.client()
		if err != nil {
			return err
		}
		done, err := dropDeadLetters(io, cmd, c, selection, *yes)
		if err != nil {
			return err
		}
		return io.report(done, "dropped: %s\n", number(int(done.Dropped), "dead letter"))
	}
	return cmd
}

func dropDeadLetters(io *cli, cmd *cobra.Command, c *client, selection deadLetterSelection, yes bool) (done web.DropResult, err error) {
	for _, id := range selection.ids {
		if _, err := c.request(cmd.Context(), http.MethodDelete, "/dead-letters/"+id, nil, nil, nil); err != nil {
			return done, err
		}
		done.Dropped++
	}
	if len(selection.ids) > 0 {
		return done, nil
	}
	if err := io.confirm(yes, "Drop all selected dead letters?"); err != nil {
		return done, err
	}
	done, _, err = call[web.DropResult](cmd.Context(), c, http.MethodDelete, "/dead-letters", selection.query(), nil)
	return done, err
}

func newDeadLetterReasonsCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "reasons", Short: "Count dead letters by rule and reason, largest count first"}
	return newReportCmd(io, cmd, "/dead-letters/reasons", deadLetterFilters, func() url.Values { return nil }, printDeadLetterReasons)
}

func printDeadLetterReasons(io *cli, counted web.DeadLetterReasons) error {
	if len(counted.Items) == 0 {
		_, err := fmt.Fprintln(io.out, "no dead letters")
		return err
	}
	t := newTable(io.out, io.palette, "count", "rule", "newest id", "last refused", "summarized", "reason")
	for _, r := range counted.Items {
		t.row(numberCell(r.Count), cellOf(r.Rule), numberCell(r.NewestID), cellOf(io.relative(r.NewestAt)), numberCell(r.Summarized), cellOf(r.Reason))
	}
	if err := t.fit(terminalWidth(io.out)).end(); err != nil {
		return err
	}
	if counted.More {
		_, err := fmt.Fprintf(io.err, "more exist; only the newest %d were counted\n", counted.Count)
		return err
	}
	return nil
}
