package sources

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// mostPath bounds the path of a request, with its query, in bytes.
const mostPath = 8 << 10

// below is the address of a path, with a query or without, below a base. It can't lead to
// another host or out of the base, also where a server takes an escaped slash for one.
func below(base *url.URL, path string) (*url.URL, error) {
	way, query, asks := strings.Cut(path, "?")
	switch {
	case !strings.HasPrefix(way, "/"), strings.HasPrefix(way, "//"):
		return nil, fmt.Errorf("%q is not a path; it begins with one slash", path)
	case len(path) > mostPath:
		return nil, fmt.Errorf("the path has %d bytes, the most is %d", len(path), mostPath)
	case strings.ContainsFunc(path, func(r rune) bool { return r == '#' || r == '\\' || unicode.IsSpace(r) || unicode.IsControl(r) }):
		return nil, fmt.Errorf("%q has a character that has to be escaped", path)
	}
	plain, err := url.PathUnescape(way)
	if err != nil {
		return nil, fmt.Errorf("%q has a wrong escape", path)
	}
	if slices.ContainsFunc(strings.FieldsFunc(plain, func(r rune) bool { return r == '/' || r == '\\' }), isDots) {
		return nil, fmt.Errorf("%q leads elsewhere by a segment of dots", path)
	}
	if _, err := url.ParseQuery(query); err != nil {
		return nil, fmt.Errorf("%q has a query that can't be read", path)
	}
	u := *base
	u.Path = strings.TrimSuffix(base.Path, "/") + plain
	u.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + way
	if u.EscapedPath() != u.RawPath { // it would be escaped anew, and an escaped slash become one
		return nil, fmt.Errorf("%q has a character that has to be escaped", path)
	}
	u.RawQuery, u.ForceQuery = query, asks && query == ""
	return &u, nil
}

// isDots tells . and .., also with parameters behind, which some servers take away.
func isDots(segment string) bool {
	name, _, _ := strings.Cut(segment, ";")
	return name == "." || name == ".."
}

// checkBase says what is wrong with the base of a source. It may hold secrets, and is not quoted.
func checkBase(base *url.URL) error {
	switch {
	case base == nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return errors.New("its base is not the address of a service; write one like https://shop.example.com/api")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return errors.New("its base has a query or a fragment; write the address up to the path")
	case base.User != nil:
		return errors.New("its base has a user in it; write a header Authorization instead")
	}
	return nil
}
