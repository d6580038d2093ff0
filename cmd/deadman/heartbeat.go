package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newHeartbeatCmd(io *cli) *cobra.Command {
	cmd := group("heartbeat", "List the keys of heartbeats with their uptime, run commands between pings, create badges")
	addURL(cmd.PersistentFlags(), io)
	states := []string{"up", "late", "never_reported", "paused", "unknown"}
	cmd.AddCommand(listing[web.Heartbeat]{
		short: "List keys with their last report, the time by which the next is due, and their uptime", path: "/heartbeats", filters: []filter{
			byRule, byEntity, byKey,
			{parameter: "key_prefix", does: "filter by a prefix of the key"},
			{parameter: "state", does: "filter by state: " + strings.Join(states, ", "), values: states},
		},
		none: "no keys of heartbeats; ping URLs are printed by deadman rule pings", above: heartbeatCounts, order: web.SortHeartbeats,
		drop: []string{"last month", "entity", "last report", "rule"}, header: []string{"state", "rule", "entity", "last report", "due", "this month", "last month", "key"},
		row: func(io *cli, h web.Heartbeat) []cell {
			return []cell{
				heartbeatState(h), cellOf(h.Rule), cellOf(h.Entity), relativeCell(io, h.ReportedAt, "never"), heartbeatDue(io, h), uptimeCell(h, 0), uptimeCell(h, 1), cellOf(h.Key),
			}
		},
	}.command(io), newHeartbeatBadgeCmd(io), newHeartbeatRunCmd(io))
	return cmd
}

// heartbeatCounts prints the number of keys by state, and the rules that nothing ever reported to.
func heartbeatCounts(io *cli, raw []byte) error {
	var page web.HeartbeatPage
	if err := json.Unmarshal(raw, &page); err != nil {
		return err
	}
	if c := page.Counts; c != nil {
		if _, err := fmt.Fprintf(io.out, "up %d, late %d, never reported %d, paused %d, unknown %d\n", c.Up, c.Late, c.NeverReported, c.Paused, c.Unknown); err != nil {
			return err
		}
		others := slices.ContainsFunc(page.Items, func(h web.Heartbeat) bool { return h.State != "late" })
		if page.Next != "" && c.Late > 0 && others {
			if _, err := fmt.Fprintln(io.out, "late keys alone: deadman heartbeat list --state late"); err != nil {
				return err
			}
		}
	}
	if len(page.Unwatched) > 0 {
		names := make([]string, len(page.Unwatched))
		for i, u := range page.Unwatched {
			names[i] = u.Rule + " " + u.Key
		}
		if _, err := fmt.Fprintf(io.out, "expected keys that nothing watches, as their job was ended: %s; deadman job create RULE KEY watches a key again\n", sanitize(strings.Join(names, ", "))); err != nil {
			return err
		}
	}
	if len(page.NeverReported) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(io.out, "rules that nothing ever reported to, and that watch nothing: %s\n", sanitize(strings.Join(page.NeverReported, ", ")))
	return err
}

func heartbeatState(h web.Heartbeat) cell {
	text := strings.ReplaceAll(h.Status(), "_", " ")
	switch h.State {
	case "up":
		return colouredCell(green, text)
	case "late":
		return colouredCell(red, text)
	}
	return colouredCell(yellow, text)
}

func heartbeatDue(io *cli, h web.Heartbeat) cell {
	switch {
	case h.Status() == "failed":
		return colouredCell(red, "failed "+io.relative(h.FailedAt))
	case !h.LateSince.IsZero():
		return colouredCell(red, "late for "+web.Span(io.now().Sub(h.LateSince)))
	case h.State == "unknown" && !h.FailedAt.IsZero():
		return colouredCell(yellow, "failed, check "+io.relative(h.DueAt))
	case !h.ExcusedTo.IsZero():
		return colouredCell(yellow, "excused, "+io.relative(h.ExcusedTo))
	case h.DueAt.IsZero():
		return cellOf("")
	}
	return cellOf(io.relative(h.DueAt))
}

// uptimeCell formats the uptime of a month, rounded down: only a whole is 100 %.
func uptimeCell(h web.Heartbeat, month int) cell {
	if month >= len(h.Months) || h.Months[month].Share == nil {
		return dimCell("unknown")
	}
	share := *h.Months[month].Share
	if share >= 1 {
		return cellOf("100 %")
	}
	return colouredCell(yellow, fmt.Sprintf("%.2f %%", math.Floor(share*10000)/100))
}

func newHeartbeatBadgeCmd(io *cli) *cobra.Command {
	var key string
	var revoke bool
	cmd := &cobra.Command{
		Use: "badge RULE", Short: "Print the address of a badge: an SVG picture of the state of a key or a rule",
		Long: "Prints the address of a badge of a rule or, with --key, of a key. The picture needs no login: any client that knows the\n" +
			"address sees the name and the state.",
		Example: `  deadman heartbeat badge backup-nightly --key crm
  echo "![backup]($(deadman heartbeat badge backup-nightly))" >> README.md
  deadman heartbeat badge backup-nightly --revoke`,
		Args: exactly("RULE"), ValidArgsFunction: completeRule(io),
		RunE: func(cmd *cobra.Command, args []string) error {
			if revoke && key != "" {
				return usage("--revoke revokes all badges of the rule; remove --key")
			}
			c, err := io.client()
			if err != nil {
				return err
			}
			path := rulePath(args[0]) + "/badges"
			if revoke {
				if _, err := c.request(cmd.Context(), http.MethodDelete, path, nil, nil, nil); err != nil {
					return err
				}
				return io.report(map[string]string{"rule": args[0], "outcome": "revoked"}, "revoked: all badges of rule %s\n", sanitize(args[0]))
			}
			badge, _, err := call[web.Badge](cmd.Context(), c, http.MethodPost, path, nil, map[string]string{"key": key})
			if err != nil {
				return err
			}
			badge.URL = absoluteURL(c, badge.URL)
			if badge.Unwatched {
				if err := warnOfUnwatchedKey(io, args[0], key); err != nil {
					return err
				}
			}
			if io.output == asJSON {
				return writeValue(io.out, badge)
			}
			_, err = fmt.Fprintln(io.out, sanitize(badge.URL))
			return err
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "key of the badge (default: the whole rule)")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "revoke all badges of the rule")
	return cmd
}

// warnOfUnwatchedKey warns of a badge of a key without a job.
func warnOfUnwatchedKey(io *cli, rule, key string) error {
	_, err := fmt.Fprintf(io.err, "warning: rule %s watches no key %s; the badge shows \"never reported\" until a first report. "+
		"Check the spelling: deadman heartbeat list --rule %[1]s\n", sanitize(rule), sanitize(key))
	return err
}
