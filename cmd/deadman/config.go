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
	addSettingsTo(cmd)
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
	return t.fit(terminalWidth(p.out)).end()
}

// heartbeatURL is the name of the setting whose whole path may be a secret.
const heartbeatURL = "heartbeat_url"

// shown is the value without its secrets.
func (c chosen) shown() string {
	if c.name == heartbeatURL {
		return hostOf(c.value)
	}
	return redact(c.value)
}

// hostOf is what may be shown of an address that is a secret.
func hostOf(address string) string {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return ""
	case err != nil || u.Host == "":
		return "xxxxx"
	}
	return u.Scheme + "://" + u.Host + "/xxxxx"
}

var (
	passwordWord = regexp.MustCompile(`(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)`)
	secretParam  = regexp.MustCompile(`(?i)([?&](?:password|token|sslpassword)=)[^&\s]+`)
	withScheme   = regexp.MustCompile(`^\s*[A-Za-z][A-Za-z0-9+.-]*://`)
	isPath       = regexp.MustCompile(`^(?:[/.~]|[A-Za-z]:\\)`)
	keywords     = regexp.MustCompile(`^\s*(?:host|hostaddr|port|user|dbname|password|sslmode|service)\s*=`)
	userInfo     = regexp.MustCompile(`://(\S*)@`) // to the last @: what cannot be parsed may hold others
)

// redact takes passwords and tokens out of addresses, also where several are in a list and
// where the scheme is left out, and out of the keywords that Postgres takes. Where it is in
// doubt it takes out more.
func redact(s string) string {
	parts, schemes, users := strings.Split(s, ","), strings.Count(s, "://"), 0
	for _, part := range parts {
		if strings.Contains(part, "@") {
			users++
		}
	}
	if schemes == len(parts) || (schemes == 0 && users == len(parts)) {
		for i, part := range parts {
			parts[i] = redactAddress(part)
		}
		s = strings.Join(parts, ",")
	} else {
		s = redactAddress(s)
	}
	s = secretParam.ReplaceAllString(s, "${1}xxxxx")
	return passwordWord.ReplaceAllString(s, "${1}xxxxx")
}

// redactAddress takes out who logs in. Paths, and the keywords of Postgres, say nobody.
func redactAddress(s string) string {
	if withScheme.MatchString(s) {
		return userInfo.ReplaceAllStringFunc(s, redactUser)
	}
	at := strings.LastIndex(s, "@")
	if at < 0 || isPath.MatchString(s) || keywords.MatchString(s) {
		return s
	}
	return strings.TrimPrefix(redactUser("://"+s[:at+1]), "://") + s[at+1:]
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
