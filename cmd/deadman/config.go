package main

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show the settings that serve would run with, and where each comes from",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := resolve(cmd.Flags(), p.env); err != nil {
				return err
			}
			all, err := choose(cmd.Flags(), p.env)
			if err != nil {
				return err
			}
			return p.showSettings(all)
		},
	}
	addSettings(cmd.Flags())
	return cmd
}

func (p *program) showSettings(all []chosen) error {
	if p.output == asJSON {
		type shown struct {
			Value string `json:"value"`
			From  string `json:"from"`
		}
		out := make(map[string]shown, len(all))
		for _, c := range all {
			out[c.name] = shown{c.shown(), c.origin}
		}
		return writeValue(p.out, out)
	}
	t := newTable(p.out, p.palette, "setting", "value", "from")
	for _, c := range all {
		from := faint("%s", c.origin)
		if c.value != c.preset {
			from.colour = normal
		}
		t.row(say(c.name), say(c.shown()), from)
	}
	return t.end()
}

// shown is the value without its secrets.
func (c chosen) shown() string { return redact(c.value) }

var (
	passwordWord = regexp.MustCompile(`(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)`)
	secretParam  = regexp.MustCompile(`(?i)([?&](?:password|token|sslpassword)=)[^&\s]+`)
	userInfo     = regexp.MustCompile(`://(\S*)@`) // to the last @: what cannot be parsed may hold others
)

// redact takes passwords and tokens out of addresses, also where several are in a list,
// and out of the keywords that Postgres takes. Where it is in doubt it takes out more.
func redact(s string) string {
	if parts := strings.Split(s, ","); strings.Count(s, "://") == len(parts) {
		for i, part := range parts {
			parts[i] = userInfo.ReplaceAllStringFunc(part, redactUser)
		}
		s = strings.Join(parts, ",")
	} else {
		s = userInfo.ReplaceAllStringFunc(s, redactUser)
	}
	s = secretParam.ReplaceAllString(s, "${1}xxxxx")
	return passwordWord.ReplaceAllString(s, "${1}xxxxx")
}

// redactUser keeps a user's name where a password stands beside it; alone it may be a token.
func redactUser(found string) string {
	if u, err := url.Parse("x" + found + "host"); err == nil && u.User != nil && u.Host == "host" {
		if _, has := u.User.Password(); has {
			return "://" + url.User(u.User.Username()).String() + ":xxxxx@"
		}
	}
	return "://xxxxx@"
}
