package logins

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"deadman/internal/access"
	"deadman/internal/configfile"
)

// Limits of the data of a person.
const (
	MaxName     = 128      // bytes of a name
	MaxGroup    = 256      // bytes of a group
	MaxGroups   = 1000     // groups of a person
	maxGroupSum = 32 << 10 // bytes of all groups of a person
	maxSubject  = 255      // bytes of the provider's id of a person, as limited by OpenID Connect
)

// ErrPerson means that the data of a person is invalid.
var ErrPerson = errors.New("the login is invalid")

// Header names the headers in which a proxy sends the person of each request.
type Header struct {
	Name      string // name of the person; canonical form
	Groups    string // groups; empty: none
	Separator string // between groups
}

// headerForm matches header names that proxies pass on.
var headerForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// taken are headers with another meaning.
var taken = []string{
	"Authorization", "Cookie", "Host", "Origin", "Referer", "Forwarded", "Via", "Connection", "Content-Type", "Content-Length", "Transfer-Encoding",
	"Upgrade", "Accept", "User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Idempotency-Key", "If-Match", "Last-Event-Id",
}

// readHeader reads the headers of a proxy from a login file.
func readHeader(v configfile.Value) *Header {
	fields := v.In(headerFields)
	if fields == nil {
		return &Header{}
	}
	h := &Header{Name: headerName(fields["name"].Require("write the header in which the proxy names the person, such as X-Forwarded-User")), Separator: ","}
	if fields["groups"].Present() {
		h.Groups = headerName(fields["groups"])
	}
	if h.Groups == "" && !fields["groups"].Present() {
		fields["groups"].Require("write the header in which the proxy names the person's groups, such as X-Forwarded-Groups; users without a group are refused")
	}
	if h.Name != "" && h.Name == h.Groups {
		fields["groups"].Problem("%s has the name; use a separate header for groups", h.Name)
	}
	if sep := fields["separator"]; sep.Present() {
		h.Separator = sep.Text()
		if len(h.Separator) > 8 || strings.ContainsFunc(h.Separator, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || !unicode.IsPrint(c) }) {
			sep.Problem(`%.40q is not a separator; write up to 8 characters other than letters and digits, such as "," or "|"`, h.Separator)
		}
	}
	return h
}

func headerName(v configfile.Value) string {
	if !v.Present() {
		return ""
	}
	name := textproto.CanonicalMIMEHeaderKey(v.Text())
	switch {
	case name == "":
	case !headerForm.MatchString(name):
		v.Problem("%.70q is not the name of a header", name)
	case slices.Contains(taken, name):
		v.Problem("%s has another meaning; use a separate header, such as X-Forwarded-User", name)
	}
	return name
}

// Given reports whether a request has one of the headers.
func (h Header) Given(of http.Header) bool {
	return len(of.Values(h.Name)) > 0 || h.Groups != "" && len(of.Values(h.Groups)) > 0
}

// PersonOf returns the person of a request from a trusted proxy; nil: the headers name no person. A duplicate header is
// refused, as one of them may be the client's, and so is invalid data: the error is ErrPerson.
func (h Header) PersonOf(of http.Header) (*access.Person, error) {
	for _, name := range []string{h.Name, h.Groups} {
		if n := len(of.Values(name)); n > 1 {
			return nil, fmt.Errorf("%w: the header %s is sent %d times, and one of them may be the client's; configure the proxy to remove headers of clients", ErrPerson, name, n)
		}
	}
	name := strings.Trim(of.Get(h.Name), blanks)
	if name == "" {
		return nil, nil
	}
	if wrong := wrongText(name, MaxName); wrong != "" {
		return nil, fmt.Errorf("%w: the header %s has no valid name: %s", ErrPerson, h.Name, wrong)
	}
	named := strings.Split(of.Get(h.Groups), h.Separator)
	for i := range named {
		named[i] = strings.Trim(named[i], blanks)
	}
	groups, err := groupsOf(named)
	if err != nil {
		return nil, err
	}
	return &access.Person{By: access.ByProxy, Name: name, Groups: groups}, nil
}

// blanks may surround a header value (RFC 9110, 5.5). Any other space is part of a name, which a login file cannot
// contain.
const blanks = " \t"

// groupsOf returns the groups without duplicates and empty names. Groups that a login file cannot name are left out.
func groupsOf(named []string) ([]string, error) {
	var groups []string
	seen, sum := make(map[string]bool), 0
	for _, group := range named {
		if group == "" || seen[group] || wrongText(group, MaxGroup) != "" {
			continue
		}
		seen[group] = true
		groups = append(groups, group)
		if sum += len(group); len(groups) > MaxGroups || sum > maxGroupSum {
			return nil, fmt.Errorf("%w: more than %d groups or %d bytes of groups; configure the provider or the proxy to send only groups of the login file",
				ErrPerson, MaxGroups, maxGroupSum)
		}
	}
	return groups, nil
}

// wrongText returns the reason why a text is not the name of a person or a group; empty: it is valid.
func wrongText(s string, limit int) string {
	switch {
	case s == "" || len(s) > limit:
		return fmt.Sprintf("it has %d bytes, the limits are 1 to %d", len(s), limit)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "it has characters that cannot be printed"
	case strings.TrimSpace(s) != s:
		return "it begins or ends with a space"
	}
	return ""
}
