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

// Bounds of what a login says of a person.
const (
	MaxName     = 128      // bytes of a name
	MaxGroup    = 256      // bytes of a group
	MaxGroups   = 1000     // groups of a person
	maxGroupSum = 32 << 10 // bytes of all groups of a person
	maxSubject  = 255      // bytes of the id by which a provider knows a person, as OpenID Connect bounds it
)

// ErrPerson means that what a login says of a person cannot be used.
var ErrPerson = errors.New("the login cannot be used")

// Header is the headers in which a proxy names a person with each request.
type Header struct {
	Name      string // the header with the name, in its canonical form
	Groups    string // the header with the groups; empty: there is none
	Separator string // between groups
}

// headerForm is the name of a header that proxies pass on.
var headerForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// taken are headers that say something else.
var taken = []string{
	"Authorization", "Cookie", "Host", "Origin", "Referer", "Forwarded", "Via", "Connection", "Content-Type", "Content-Length", "Transfer-Encoding",
	"Upgrade", "Accept", "User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Idempotency-Key", "If-Match", "Last-Event-Id",
}

// readHeader reads the headers of a proxy.
func readHeader(v configfile.Value) *Header {
	fields := v.Fields("name", "groups", "separator")
	if fields == nil {
		return &Header{}
	}
	h := &Header{Name: headerName(fields["name"].Require("write the header in which the proxy names the person, such as X-Forwarded-User")), Separator: ","}
	if fields["groups"].Present() {
		h.Groups = headerName(fields["groups"])
	}
	if h.Groups == "" && !fields["groups"].Present() {
		fields["groups"].Require("write the header in which the proxy names the person's groups, such as X-Forwarded-Groups; nobody gets in without a group")
	}
	if h.Name != "" && h.Name == h.Groups {
		fields["groups"].Problem("%s has the name; groups are in a header of their own", h.Name)
	}
	if sep := fields["separator"]; sep.Present() {
		h.Separator = sep.Text()
		if len(h.Separator) > 8 || strings.ContainsFunc(h.Separator, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || !unicode.IsPrint(c) }) {
			sep.Problem(`%.40q does not separate groups; write up to 8 characters that are no letters and no digits, such as "," or "|"`, h.Separator)
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
		v.Problem("%s says something else; take a header of its own, such as X-Forwarded-User", name)
	}
	return name
}

// Given reports whether a request has one of the headers.
func (h Header) Given(of http.Header) bool {
	return len(of.Values(h.Name)) > 0 || h.Groups != "" && len(of.Values(h.Groups)) > 0
}

// PersonOf returns the person whom the headers of a request name, which came from a trusted proxy; nil: they name nobody. A header that
// is there twice may be the client's and the proxy's, and is refused, as is all else that cannot be read: the error is
// ErrPerson.
func (h Header) PersonOf(of http.Header) (*access.Person, error) {
	for _, name := range []string{h.Name, h.Groups} {
		if n := len(of.Values(name)); n > 1 {
			return nil, fmt.Errorf("%w: the header %s is there %d times, and one of them may be the client's; have the proxy remove what clients send", ErrPerson, name, n)
		}
	}
	name := strings.Trim(of.Get(h.Name), blanks)
	if name == "" {
		return nil, nil
	}
	if wrong := wrongText(name, MaxName); wrong != "" {
		return nil, fmt.Errorf("%w: the header %s has no name: %s", ErrPerson, h.Name, wrong)
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

// blanks may stand around what a header names (RFC 9110, 5.5). Any other space is part of a name, which no file has.
const blanks = " \t"

// groupsOf is groups, each once, and without those that have no name. A group that no file can name is left out.
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
			return nil, fmt.Errorf("%w: it brings more than %d groups or %d bytes of them; have the provider or the proxy send those alone that the login file names",
				ErrPerson, MaxGroups, maxGroupSum)
		}
	}
	return groups, nil
}

// wrongText says why a text is no name of a person or a group; empty: it is one.
func wrongText(s string, most int) string {
	switch {
	case s == "" || len(s) > most:
		return fmt.Sprintf("it has %d bytes; 1 to %d may be", len(s), most)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "it has what cannot be printed"
	case strings.TrimSpace(s) != s:
		return "it begins or ends with a space"
	}
	return ""
}
