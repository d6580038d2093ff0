package configfile

import (
	"net/http"
	"regexp"
	"strings"
	"unicode"
)

// headerName matches header names of RFC 9110, section 5.1, except for the rarer characters.
var headerName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// maxHeaders is the maximum number of headers of a service.
const maxHeaders = 20

// ReadHeaders reads the headers of requests to a service, by their canonical names. secret reads the value of one header;
// ok is false if it reported a problem.
func ReadHeaders(v Value, secret func(one Value) (value string, ok bool)) map[string]string {
	if !v.Present() {
		return nil
	}
	headers := make(map[string]string)
	for _, one := range v.Entries("a name for each header") {
		value, ok := secret(one)
		if !ok {
			continue
		}
		name := http.CanonicalHeaderKey(one.Name)
		switch _, twice := headers[name]; {
		case !headerName.MatchString(one.Name):
			one.ProblemAtName("%q is not a header name; use letters, digits, _ and -", Truncate(one.Name, 80))
		case isReservedHeader(name):
			one.ProblemAtName("deadman sets %s itself; leave it out", name)
		case twice:
			one.ProblemAtName("%s is here twice; keep one", name)
		case strings.ContainsFunc(value, unicode.IsControl):
			one.ProblemAtName("the secret of %s cannot be sent in a header; it has a control character", name)
		}
		headers[name] = value
	}
	if len(headers) > maxHeaders {
		v.Problem("there are %d headers, and the limit is %d; remove those that the service does not need", len(headers), maxHeaders)
	}
	return headers
}

// isReservedHeader reports whether operators can't set a header, because it determines the routing or framing of a
// request.
func isReservedHeader(name string) bool {
	switch name {
	case "Host", "Connection", "Content-Length", "Transfer-Encoding", "Accept-Encoding", "Te", "Trailer", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Proxy-")
}
