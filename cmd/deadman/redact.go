package main

import (
	"net/url"
	"regexp"
	"strings"
)

// heartbeatURL is the name of the setting whose whole path may be a secret.
const heartbeatURL = "heartbeat_url"

// hidden replaces secrets in output.
const hidden = "xxxxx"

// shownValue returns the value without its secrets.
func shownValue(c resolvedSetting) string {
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

// hostOf returns the scheme and host of an address with a secret path.
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
	userInfo     = regexp.MustCompile(`(?s)://(.*)@`) // up to the last @, because an unparsable address may contain several
)

// redact removes passwords and tokens from addresses, from lists of them, from addresses without a scheme, and from
// Postgres keywords. In doubt it removes more.
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

// redactAddress removes the user information. Paths and Postgres keywords have none.
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

// redactUser keeps the user name if a password follows it. A name alone may be a token.
func redactUser(found string) string {
	if u, err := url.Parse("x" + found + "host"); err == nil && u.User != nil && u.Host == "host" {
		if _, has := u.User.Password(); has {
			return "://" + url.User(u.User.Username()).String() + ":" + hidden + "@"
		}
	}
	return "://" + hidden + "@"
}

// shownAddress returns the displayable part of the address of a database or broker. It accepts an address, a list of
// addresses, or Postgres keywords, and hides any of them that has an unexpected part, because that may be a password.
// An address must match begins, since a bare word may be a password too.
func shownAddress(s string, prefix *regexp.Regexp) string {
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
	case !prefix.MatchString(s):
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

// shownKeywords returns Postgres keywords with the values of unsafe ones hidden.
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
	// safeAddress matches an address without user information, or with it removed: hosts with numeric ports, a path,
	// and parameters that queryPair has processed.
	safeAddress = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9+.-]*://)?(?:(?:[A-Za-z0-9._~%+-]+:)?` + hidden + `@)?(?:` + oneHost + `(?:,` + oneHost + `)*)?` +
		`(?:/[A-Za-z0-9._~%/-]*)?(?:\?[A-Za-z0-9._~%+:,/=&-]*)?$`)
)

// isSafeParameter reports whether a Postgres parameter's value is not secret.
func isSafeParameter(name string) bool {
	switch name {
	case "host", "hostaddr", "port", "user", "dbname", "database", "service", "sslmode", "sslrootcert", "sslcert", "sslkey", "passfile", "application_name",
		"connect_timeout", "target_session_attrs", "search_path", "timezone", "client_encoding", "default_query_exec_mode", "channel_binding", "krbsrvname":
		return true
	}
	return strings.HasPrefix(name, "pool_") || strings.HasSuffix(name, "_timeout")
}
