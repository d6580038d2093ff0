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

	"deadman/alerts"
	"deadman/web"
)

func newMuteCmd(io *cli) *cobra.Command {
	cmd := group("mute", "Create, list and end mutes")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(
		newMuteCreateCmd(io),
		listing[web.Mute]{
			short: "List mutes, newest first, including pending and ended ones", path: "/mutes",
			none:   "no mutes",
			drop:   []string{"from", "until", "ended by", "created by", "starts"},
			header: []string{"id", "match", "state", "from", "starts", "until", "ends", "created by", "reason", "ended by"},
			row: func(io *cli, m web.Mute) []cell {
				state := dimCell("%s", m.State)
				if m.Active {
					state = colouredCell(green, m.State)
				}
				return []cell{
					numberCell(m.ID), colouredCell(bold, matchText(m.Match)), state, cellOf(io.exact(m.StartsAt)), cellOf(io.relative(m.StartsAt)),
					cellOf(io.exact(m.EndsAt)), cellOf(io.relative(m.EndsAt)), cellOf(m.CreatedBy), cellOf(m.Reason), cellOf(m.EndedBy),
				}
			},
		}.command(io),
		&cobra.Command{Use: "end ID", Short: "End a mute early, or before its start", Args: exactly("ID"), RunE: io.with(endMute)},
	)
	return cmd
}

// matchText formats the matchers of a mute.
func matchText(m map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+"="+m[name])
	}
	return strings.Join(parts, " ")
}

// matchOf parses the matchers of a mute.
func matchOf(matches []string) (map[string]string, error) {
	if len(matches) == 0 {
		return nil, usage("--match is required; give a matcher such as rule='order-*'")
	}
	m := make(map[string]string)
	for _, text := range matches {
		name, pattern, ok := strings.Cut(text, "=")
		if !ok || name == "" || pattern == "" {
			return nil, usage("--match is %q; the format is NAME=PATTERN, such as rule='order-*'", text)
		}
		if _, twice := m[name]; twice {
			return nil, usage("--match: %s is given twice", name)
		}
		m[name] = pattern
	}
	if err := alerts.Match(m).Check(); err != nil {
		return nil, usage("--match: %v", err)
	}
	return m, nil
}

func newMuteCreateCmd(io *cli) *cobra.Command {
	var request web.MuteRequest
	var matches []string
	var starts, until string
	cmd := &cobra.Command{
		Use: "create --match NAME=PATTERN --reason REASON --for DURATION", Short: "Suppress notifications of matching alerts for a time",
		Long: `Suppresses notifications of matching alerts for a time, from now or from --starts-at on. The alerts are still published and
listed. --for counts from the start.

NAME is a field of the alert (` + strings.Join(alerts.Fields, ", ") + `) or a label; * in PATTERN
matches any text. An alert is muted if all matchers match.`,
		Example: `  deadman mute create --match rule='order-*' --match site=north --for 2h --reason "conveyor maintenance"
  deadman mute create --match site=north --starts-at "2026-12-06 22:00" --for 4h --reason "database upgrade"`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if request.Match, err = matchOf(matches); err != nil {
				return err
			}
			if request.Reason == "" {
				return usage("--reason is required")
			}
			if (request.For == "") == (until == "") {
				return usage("%s requires either --for or --until", commandName(cmd))
			}
			if err := checkSpan("for", request.For); err != nil {
				return err
			}
			if request.Starts, err = io.instantFlag("starts-at", starts, io.now()); err != nil {
				return err
			}
			if request.Until, err = io.instantFlag("until", until, io.now()); err != nil {
				return err
			}
			c, err := io.client()
			if err != nil {
				return err
			}
			m, raw, err := call[web.Mute](cmd.Context(), c, http.MethodPost, "/mutes", nil, request)
			if err != nil {
				return err
			}
			if io.output == asJSON {
				return writeJSON(io.out, raw)
			}
			return printMute(io, m)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&matches, "match", nil, "matcher, NAME=PATTERN; can be repeated")
	flags.StringVar(&request.Reason, "reason", "", "reason of the mute (required)")
	textFlagVar(flags, &starts, "starts-at", "time", "", "start of the mute (22:00, 2026-01-31T15:04:05Z, +2h); default now")
	textFlagVar(flags, &request.For, "for", "duration", "", "duration of the mute from its start, such as 2h")
	textFlagVar(flags, &until, "until", "time", "", "end of the mute (15:04, 2026-01-31T15:04:05Z, +2h)")
	return cmd
}

// printMute prints a new mute, with its effect on the alerts that are open.
func printMute(io *cli, m web.Mute) error {
	span := "until " + io.exact(m.EndsAt)
	if !m.Active {
		span = "from " + io.exact(m.StartsAt) + " " + span
	}
	text := fmt.Sprintf("muted: %s %s (mute %d)\n", sanitize(matchText(m.Match)), span, m.ID)
	if r := m.Reach; r != nil {
		for line := range strings.Lines(r.Warning) {
			fmt.Fprintln(io.err, "warning:", sanitize(strings.TrimSpace(line)))
		}
		open := number(int(r.OpenAlerts), "open alert")
		if r.Compared > 0 {
			open = fmt.Sprintf("%d of the %d newest open alerts", r.OpenAlerts, r.Compared)
		}
		text += fmt.Sprintf("it matches %s and %s\n", open, number(r.Rules, "rule"))
	}
	_, err := fmt.Fprint(io.out, text)
	return err
}

func endMute(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	if _, err := c.request(cmd.Context(), http.MethodDelete, "/mutes/"+url.PathEscape(args[0]), nil, nil, nil); err != nil {
		return err
	}
	id, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return fmt.Errorf("the id of the ended mute: %w", err) // the node accepts numbers only
	}
	return io.report(map[string]any{"id": id, "outcome": "ended"}, "ended: mute %s\n", sanitize(args[0]))
}
