package main

import (
	"net/url"
	"regexp"
	"strings"
)

// heartbeatURL is the name of the setting whose whole path may be a secret.
const heartbeatURL = "heartbeat_url"

// hidden stands for what is not shown.
const hidden = "xxxxx"

// shown is the value without its secrets.
func (c resolvedSetting) shown() string {
	switch c.name {
	case heartbeatURL:
		return hostOf(c.value)
	case "database_url", "public_url":
		return shownAddress(c.value, withScheme)
	case "nats_url":
		return shownAddress(c.value, anything)
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
		return hidden
	}
	return u.Scheme + "://" + u.Host + "/" + hidden
}

var (
	passwordWord = regexp.MustCompile(`(?is)(password\s*=\s*)('(?:[^'\\]|\\.)*(?:'|$)|(?:\\.|[^\s&\\])+)`)
	secretParam  = regexp.MustCompile(`(?i)([?&](?:password|token|sslpassword)=)[^&\s]+`)
	anything     = regexp.MustCompile(``)
	withScheme   = regexp.MustCompile(`^\s*[A-Za-z][A-Za-z0-9+.-]*://`)
	isPath       = regexp.MustCompile(`^(?:[/.~]|[A-Za-z]:\\)`)
	keywords     = regexp.MustCompile(`^\s*(?:host|hostaddr|port|user|dbname|password|sslmode|service)\s*=`)
	userInfo     = regexp.MustCompile(`(?s)://(.*)@`) // to the last @: what cannot be parsed may hold others
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
	s = secretParam.ReplaceAllString(s, "${1}"+hidden)
	return passwordWord.ReplaceAllString(s, "${1}"+hidden)
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
			return "://" + url.User(u.User.Username()).String() + ":" + hidden + "@"
		}
	}
	return "://" + hidden + "@"
}

// shownAddress is what may be shown of the address of a database or a broker: an address, or a list of them, or the keywords of
// Postgres, of which each part is known to be no secret. Where a part is missing or at the wrong place it may be
// a password: nothing of that is shown. An address begins as begins says: a word alone may be a password too.
func shownAddress(s string, begins *regexp.Regexp) string {
	s = redact(s)
	if keywords.MatchString(s) {
		return shownKeywords(s)
	}
	s = queryPair.ReplaceAllStringFunc(s, func(pair string) string {
		name, _, _ := strings.Cut(pair[1:], "=")
		if isSafeParameter(name) {
			return pair
		}
		return pair[:1] + name + "=" + hidden
	})
	switch {
	case s == "":
		return s
	case !begins.MatchString(s):
		return hidden
	case safeAddress.MatchString(s):
		return s
	}
	for part := range strings.SplitSeq(s, ",") {
		if !safeAddress.MatchString(part) {
			return hidden
		}
	}
	return s
}

// shownKeywords shows those keywords of Postgres that are no secrets.
func shownKeywords(s string) string {
	if !onlyKeywords.MatchString(s) {
		return hidden
	}
	return keyword.ReplaceAllStringFunc(s, func(pair string) string {
		name, _, _ := strings.Cut(pair, "=")
		if isSafeParameter(strings.TrimSpace(name)) {
			return pair
		}
		return name + "=" + hidden
	})
}

const (
	oneKeyword = `[a-z_]+\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?:\\.|[^\s'\\])+)`
	oneHost    = `(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?`
)

var (
	keyword      = regexp.MustCompile(oneKeyword)
	onlyKeywords = regexp.MustCompile(`^\s*` + oneKeyword + `(?:\s+` + oneKeyword + `)*\s*$`)
	queryPair    = regexp.MustCompile(`[?&][^=&?\s]+=[^&\s]*`)
	// safeAddress is an address whose user is known to be none, or was taken out: hosts with numbers for ports, a path,
	// and parameters that queryPair has dealt with.
	safeAddress = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9+.-]*://)?(?:(?:[A-Za-z0-9._~%+-]+:)?` + hidden + `@)?(?:` + oneHost + `(?:,` + oneHost + `)*)?` +
		`(?:/[A-Za-z0-9._~%/-]*)?(?:\?[A-Za-z0-9._~%+:,/=&-]*)?$`)
)

// isSafeParameter reports whether the value of a parameter of Postgres is no secret.
func isSafeParameter(name string) bool {
	switch name {
	case "host", "hostaddr", "port", "user", "dbname", "database", "service", "sslmode", "sslrootcert", "sslcert", "sslkey", "passfile", "application_name",
		"connect_timeout", "target_session_attrs", "search_path", "timezone", "client_encoding", "default_query_exec_mode", "channel_binding", "krbsrvname":
		return true
	}
	return strings.HasPrefix(name, "pool_") || strings.HasSuffix(name, "_timeout")
}
