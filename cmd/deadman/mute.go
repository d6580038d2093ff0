package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"deadman/alerts"
	"deadman/web"
)

func (p *cli) muteCommand() *cobra.Command {
	cmd := group("mute", "Keep alerts from people for a while")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(
		p.createMuteCommand(),
		listing[web.Mute]{
			short: "List mutes, newest first, also those that ended", path: "/mutes",
			none:   "nothing is muted; deadman mute create does it",
			header: []string{"id", "mutes", "until", "ends", "by", "reason", "ended by"},
			row: func(p *cli, m web.Mute) []cell {
				until := dimCell("%s", p.exact(m.EndsAt))
				if m.Live {
					until = colouredCell(green, p.exact(m.EndsAt))
				}
				return []cell{
					sayNumber(m.ID), colouredCell(bold, matchText(m.Match)), until, cellOf(web.Relative(m.EndsAt, p.now())),
					cellOf(m.CreatedBy), cellOf(m.Reason), cellOf(m.EndedBy),
				}
			},
		}.command(p),
		&cobra.Command{Use: "end ID", Short: "End a mute before its time", Args: exactly("ID"), RunE: p.endMute},
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
		return nil, usage("--match is missing; name what is to be muted, such as rule='order-*'")
	}
	m := make(map[string]string)
	for _, text := range matches {
		name, pattern, ok := strings.Cut(text, "=")
		if !ok || name == "" || pattern == "" {
			return nil, usage("--match is %q; it takes a name, = and a pattern, such as rule='order-*'", text)
		}
		if _, twice := m[name]; twice {
			return nil, usage("--match names %s twice; give it once", name)
		}
		m[name] = pattern
	}
	return m, nil
}

func (p *cli) createMuteCommand() *cobra.Command {
	var wish web.MuteRequest
	var matches []string
	var until string
	cmd := &cobra.Command{
		Use: "create --match NAME=PATTERN --reason WHY --for SPAN", Short: "Keep alerts from people for a while",
		Long: `Keeps alerts from people for a while. They are in the stream and in the lists all the same.

NAME is a field of the alert (` + strings.Join(alerts.Fields, ", ") + `) or one of its labels; in PATTERN, * is
any text. Where several are given, an alert is muted that has all of them.`,
		Example: `  deadman mute create --match rule='order-*' --match site=north --for 2h --reason "the belt is being mended"`,
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if wish.Match, err = matchOf(matches); err != nil {
				return err
			}
			if wish.Reason == "" {
				return usage("--reason is missing; say why, for those who wonder")
			}
			if (wish.For == "") == (until == "") {
				return usage("give either --for or --until: how long it is to be muted")
			}
			if err := checkSpan("for", wish.For); err != nil {
				return err
			}
			if until != "" {
				if wish.Until, err = p.instantFlag("until", until, p.now()); err != nil {
					return err
				}
			}
			c, err := p.client()
			if err != nil {
				return err
			}
			m, raw, err := tell[web.Mute](cmd.Context(), c, http.MethodPost, "/mutes", nil, wish)
			if err != nil {
				return err
			}
			if p.output == asJSON {
				return writeJSON(p.out, raw)
			}
			_, err = fmt.Fprintf(p.out, "muted: %s until %s (mute %d)\n", sanitize(matchText(m.Match)), p.exact(m.EndsAt), m.ID)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&matches, "match", nil, "what an alert has to have to be muted, NAME=PATTERN; more than one may be given")
	flags.StringVar(&wish.Reason, "reason", "", "why")
	flags.StringVar(&wish.For, "for", "", "how long, such as 2h")
	flags.StringVar(&until, "until", "", "until this time (15:04, 2026-01-31T15:04:05Z, +2h)")
	return cmd
}

func (p *cli) endMute(cmd *cobra.Command, args []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	if _, err := c.ask(cmd.Context(), http.MethodDelete, "/mutes/"+url.PathEscape(args[0]), nil, nil, nil); err != nil {
		return err
	}
	if p.output == asJSON {
		return writeValue(p.out, map[string]string{"mute": args[0], "outcome": "ended"})
	}
	_, err = fmt.Fprintf(p.out, "ended: mute %s keeps nothing from people any more\n", sanitize(args[0]))
	return err
}
