package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"deadman/web"
)

func newForgetCmd(io *cli) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "forget ENTITY KEY", Short: "Delete the past of an entity's key, such as a customer's",
		Long: `Deletes the ended jobs of a key with their alerts, notifications and pings, and its dead letters, from
the database and from the streams DEADMAN_ALERTS and DEADMAN_EVENTS. A random pseudonym replaces the
key in the audit log.

Pending jobs must be cancelled before, so that channels and consumers learn the end of their alerts.
The files of an embedded node are written anew without the deleted rows; the node decides nothing
meanwhile. A long stream is read in several requests; on a terminal the command shows the progress, and
it can be repeated after an interruption. Backups, streams of others, logs, and messages that channels received are not changed.`,
		Example: `  deadman forget customer 4711 --dry-run
  deadman forget customer 4711 --yes`,
		Args: exactly("ENTITY", "KEY"),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count what would be deleted, and delete nothing")
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return forget(io, cmd, web.ForgetRequest{Entity: args[0], Key: args[1], DryRun: dryRun}, *yes)
	}
	return cmd
}

// forget counts the rows of a key, asks for confirmation, and deletes them.
func forget(io *cli, cmd *cobra.Command, request web.ForgetRequest, yes bool) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	if request.DryRun || !yes {
		count := request
		count.DryRun = true
		sum, err := forgetAll(cmd.Context(), io, c, count)
		if err != nil || request.DryRun {
			return printForgotten(io, request, "would be deleted", sum, err)
		}
		if err := io.confirm(yes, fmt.Sprintf("Delete %s of %s %s? They cannot be restored.", forgottenText(sum), sanitize(request.Entity), sanitize(request.Key))); err != nil {
			return err
		}
	}
	sum, err := forgetAll(cmd.Context(), io, c, request)
	return printForgotten(io, request, "deleted", sum, err)
}

// forgetAll repeats a request until the node has read all stored events, and adds the numbers up. On a terminal it shows the
// progress. The answer of an older node has none.
func forgetAll(ctx context.Context, io *cli, c *client, request web.ForgetRequest) (web.Forgotten, error) {
	var events, unread int64
	for {
		part, _, err := call[web.Forgotten](ctx, c, http.MethodPost, "/entities/forget", nil, request)
		if isTerminal(io.err) && request.After > 0 {
			fmt.Fprint(io.err, "\r\x1b[K")
		}
		if err != nil && events > 0 && !request.DryRun {
			err = fmt.Errorf("%w\n%s deleted before; repeat the command for the rest", err, number(int(events), "stored event"))
		}
		events, unread = events+part.Events, unread+part.UnreadEvents
		if err != nil || part.Done || part.After <= request.After {
			part.Events, part.UnreadEvents = events, unread
			return part, err
		}
		request.After, request.Through = part.After, part.Through
		if isTerminal(io.err) {
			fmt.Fprintf(io.err, "read up to message %s of %s, of the key: %s", humanize.Comma(int64(part.After)), humanize.Comma(int64(part.Through)), humanize.Comma(events)) //nolint:gosec // sequences are far below the limit
		}
	}
}

// forgottenText returns the numbers that are not 0, such as "3 jobs and 2 alerts".
func forgottenText(f web.Forgotten) string {
	var parts []string
	for _, p := range []struct {
		n     int64
		thing string
	}{
		{f.Jobs, "job"},
		{f.Alerts, "alert"},
		{f.Notifications, "notification"},
		{f.EarlyResolves, "early resolve"},
		{f.Pings, "ping"},
		{f.PingAddresses, "ping URL"},
		{f.Mutes, "mute"},
		{f.DeadLetters, "dead letter"},
		{f.Answers, "kept answer"},
		{f.AlertMessages, "published alert"},
		{f.Events, "stored event"},
	} {
		if p.n > 0 {
			parts = append(parts, number(int(p.n), p.thing))
		}
	}
	switch n := len(parts); n {
	case 0:
		return "nothing"
	case 1:
		return parts[0]
	default:
		return strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
}

// printForgotten prints the numbers of deleted rows, and the remains.
func printForgotten(io *cli, request web.ForgetRequest, verb string, f web.Forgotten, err error) error {
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s %s\n", sanitize(request.Entity), sanitize(request.Key), forgottenText(f), verb)
	switch {
	case f.AuditEntries > 0 && request.DryRun:
		fmt.Fprintf(&b, "audit log: a pseudonym would replace the key; entries: %d\n", f.AuditEntries)
	case f.AuditEntries > 0:
		fmt.Fprintf(&b, "audit log: %s replaces the key; entries: %d\n", f.Pseudonym, f.AuditEntries)
	}
	if f.UnreadEvents > 0 {
		fmt.Fprintf(&b, "not deleted: %s of DEADMAN_EVENTS that rules have not read yet; repeat the command later\n", number(int(f.UnreadEvents), "message"))
	}
	if f.UnreadAlerts > 0 {
		fmt.Fprintf(&b, "not deleted: alerts that retention has deleted from the database, among the last %s of DEADMAN_ALERTS: there was no time to read them\n", number(int(f.UnreadAlerts), "message"))
	}
	if len(f.OtherStreams) > 0 {
		fmt.Fprintf(&b, "not deleted: messages of %s, which rules of this entity read\n", strings.Join(f.OtherStreams, ", "))
	}
	if len(f.RuleVersions) > 0 {
		fmt.Fprintf(&b, "not changed: versions of rules that name the key: %s\n", strings.Join(f.RuleVersions, ", "))
	}
	return io.report(f, "%s", b.String())
}
