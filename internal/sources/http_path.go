package sources

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// mostPath is the maximum length of a request's path and query, in bytes.
const mostPath = 8 << 10

// below returns the URL of a path, with an optional query, below a base. The result never leaves the host or the
// base, even for a server that decodes escaped slashes.
func below(base *url.URL, path string) (*url.URL, error) {
	way, query, hasQuery := strings.Cut(path, "?")
	switch {
	case !strings.HasPrefix(way, "/"), strings.HasPrefix(way, "//"):
		return nil, fmt.Errorf("%q is not a path; a path begins with one slash", path)
	case len(path) > mostPath:
		return nil, fmt.Errorf("the path has %d bytes, the limit is %d", len(path), mostPath)
	case strings.ContainsFunc(path, func(r rune) bool { return r == '#' || r == '\\' || unicode.IsSpace(r) || unicode.IsControl(r) }):
		return nil, fmt.Errorf("%q has a character that must be escaped", path)
	}
	plain, err := url.PathUnescape(way)
	if err != nil {
		return nil, fmt.Errorf("%q has an invalid escape", path)
	}
	if slices.ContainsFunc(strings.FieldsFunc(plain, func(r rune) bool { return r == '/' || r == '\\' }), isDots) {
		return nil, fmt.Errorf("%q has a dot segment", path)
	}
	if _, err := url.ParseQuery(query); err != nil {
		return nil, fmt.Errorf("%q has an invalid query", path)
	}
	u := *base
	u.Path = strings.TrimSuffix(base.Path, "/") + plain
	u.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + way
	if u.EscapedPath() != u.RawPath { // it would be escaped again, and an escaped slash would be decoded
		return nil, fmt.Errorf("%q has a character that must be escaped", path)
	}
	u.RawQuery, u.ForceQuery = query, hasQuery && query == ""
	return &u, nil
}

// isDots reports whether a segment is "." or "..", including path parameters, as some servers remove them.
func isDots(segment string) bool {
	name, _, _ := strings.Cut(segment, ";")
	return name == "." || name == ".."
}

// checkBase returns an error for an invalid base URL. It does not quote the URL, as it may contain secrets.
func checkBase(base *url.URL) error {
	switch {
	case base == nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return errors.New("the base is not the URL of a service; write one such as https://shop.example.com/api")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return errors.New("the base has a query or a fragment; write the URL up to the path")
	case base.User != nil:
		return errors.New("the base has a user; write a header Authorization instead")
	}
	return nil
}
