package fuzz_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// request is a request to send.
type request struct {
	method, path string // path with the query, as in the request line
	header       http.Header
	body         []byte
	api, stream  bool // for the API; requests a stream
}

// http returns the request to a node. The path is not escaped.
func (q request) http(base string) *http.Request {
	host := strings.TrimPrefix(base, "http://")
	r := &http.Request{Method: q.method, URL: &url.URL{Scheme: "http", Host: host, Opaque: q.path}, Host: host, Header: q.header}
	if len(q.body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(q.body)), int64(len(q.body))
	}
	return r
}

// isUnreadable reports whether net/http rejects the request line. It then closes the connection without reading the
// body, and the client may see the close before the response.
func (q request) isUnreadable() bool {
	_, err := url.ParseRequestURI(q.path)
	return err != nil && len(q.body) > 0
}

// String describes the request so that it can be sent again.
func (q request) String() string {
	header := q.header.Clone()
	header.Del("Authorization")
	return fmt.Sprintf("%s %s\n%v\n%.2000q (%d bytes)", q.method, q.path, header, q.body, len(q.body))
}

// maker creates random requests.
type maker struct {
	*rand.Rand
	*target
	operations []operation
}

// operation is one operation of the API.
type operation struct {
	method, path string
	spec         described
}

func newMaker(seed, stream uint64, n *target) *maker {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, stream)), target: n}
	for _, path := range slices.Sorted(maps.Keys(n.spec.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(n.spec.Paths[path])) {
			m.operations = append(m.operations, operation{strings.ToUpper(method), path, n.spec.Paths[path][method]})
		}
	}
	return m
}

// one returns a random element.
func one[T any](m *maker, of []T) T { return of[m.IntN(len(of))] }

// chance returns true with probability p.
func (m *maker) chance(p float64) bool { return m.Float64() < p }

// request creates the next request.
func (m *maker) request() (q request) {
	q.header = http.Header{}
	if token := m.token(); token != "" {
		q.header.Set("Authorization", token)
	}
	if q.api = m.chance(0.75); q.api {
		m.call(&q, one(m, m.operations))
	} else {
		m.visit(&q)
	}
	if m.chance(0.02) {
		q.method = one(m, []string{"HEAD", "OPTIONS", "PATCH", "PUT", "TRACE", "BREW"})
	}
	if m.chance(0.02) {
		q.path += one(m, []string{"&%zz", "?", "/", "//", "%2f", "%00", "?a=%ff"})
	}
	if m.chance(0.03) {
		q.header.Set(one(m, oddHeaders), headerValue(one(m, oddTexts)))
	}
	return q
}

// token returns mostly the token of an administrator.
func (m *maker) token() string {
	if m.chance(0.8) {
		return m.tokens[0]
	}
	return one(m, m.tokens)
}

// call creates a request of an operation.
func (m *maker) call(q *request, o operation) {
	q.method, q.path = o.method, m.path(o.path)
	query := url.Values{}
	for _, p := range o.spec.Parameters {
		switch {
		case p.In == "query" && (p.Required || m.chance(0.35)):
			query.Add(p.Name, m.text(p.Schema))
			if m.chance(0.02) {
				query.Add(p.Name, m.text(p.Schema))
			}
		case p.In == "header" && m.chance(0.25):
			q.header.Set(p.Name, headerValue(m.text(p.Schema)))
		}
	}
	if m.chance(0.03) {
		query.Add(one(m, oddTexts), one(m, oddTexts))
	}
	if len(query) > 0 {
		q.path += "?" + query.Encode()
	}
	if q.stream = q.path == "/api/v1/alerts" && m.chance(0.3); q.stream {
		q.header.Set("Accept", "text/event-stream")
	} else if m.chance(0.1) {
		q.header.Set("Accept", one(m, []string{"application/yaml", "text/html", "*/*", "a/b;q=x", ""}))
	}
	if content := o.spec.RequestBody.Content; len(content) > 0 {
		q.body = m.broken(m.body(q, content))
	}
}

// body creates a body of one of the content types of an operation.
func (m *maker) body(q *request, content map[string]media) []byte {
	kind := one(m, slices.Sorted(maps.Keys(content)))
	q.header.Set("Content-Type", kind)
	if m.chance(0.04) {
		q.header.Set("Content-Type", one(m, []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml", "x"}))
	}
	if strings.Contains(kind, "yaml") || m.chance(0.05) {
		return []byte(m.rule())
	}
	value := m.value(content[kind].Schema, 0)
	if text, is := value.(string); is && m.chance(0.7) {
		return []byte(text)
	}
	body, err := json.Marshal(value)
	if err != nil { // a value that JSON cannot represent, such as an infinite number
		return []byte("{}")
	}
	return body
}

// maxBody is above every limit of small bodies, and small enough to be sent before the response.
const maxBody = 500_000

// broken corrupts some bodies.
func (m *maker) broken(body []byte) []byte {
	switch {
	case m.chance(0.05):
		return body[:len(body)/2]
	case m.chance(0.01) && len(body) > 0:
		return bytes.Repeat(body, min(one(m, []int{100, 2000}), maxBody/len(body)))
	case m.chance(0.04):
		return bytes.Repeat([]byte(one(m, []string{"[", `{"a":`})), one(m, []int{100, 10_001, 40_000}))
	case m.chance(0.02):
		noise := make([]byte, 200)
		for i := range noise {
			noise[i] = byte(m.UintN(256))
		}
		return noise
	}
	return body
}

// rule creates a rule as text, mostly with a few mistakes.
func (m *maker) rule() string {
	text := one(m, templates)
	for range one(m, []int{0, 1, 1, 2, 4}) {
		at := m.IntN(len(text))
		text = text[:at] + one(m, invalidTexts) + text[min(len(text), at+one(m, []int{0, 1, 3, 10})):]
	}
	return text
}

// visit creates a request of a page, a form, a hook or a ping.
func (m *maker) visit(q *request) {
	place := one(m, operations)
	q.method, q.path = place.method, m.path(place.path)
	form := url.Values{}
	for range one(m, []int{0, 0, 1, 2}) {
		form.Add(one(m, fields), m.word())
	}
	if q.stream = place.method == http.MethodGet && m.chance(0.05); q.stream {
		form.Set("live", "")
		q.header.Set("Accept", "text/event-stream")
	} else if m.chance(0.7) {
		q.header.Set("Accept", "text/html")
	}
	if len(form) > 0 {
		q.path += "?" + form.Encode()
	}
	if place.method == http.MethodPost {
		q.header.Set("Content-Type", one(m, []string{"application/x-www-form-urlencoded", "application/x-www-form-urlencoded", "application/json", "multipart/form-data; boundary=x"}))
		form := url.Values{}
		for range one(m, []int{0, 1, 3, 6}) {
			form.Add(one(m, fields), cmp.Or(one(m, []string{"", m.rule()}), m.word()))
		}
		q.body = m.broken([]byte(form.Encode()))
	}
}

var pathPart = regexp.MustCompile(`\{\w+\}`)

// path fills in the parameters of a path.
func (m *maker) path(pattern string) string {
	return pathPart.ReplaceAllStringFunc(pattern, func(string) string {
		value := m.word()
		if m.chance(0.7) {
			value = one(m, m.known)
		}
		if m.chance(0.05) { // unescaped, if the request line allows it
			return strings.Map(func(c rune) rune {
				if c <= ' ' || c >= 0x7f {
					return -1
				}
				return c
			}, value)
		}
		return url.PathEscape(value)
	})
}

// word returns a known name or an unusual text.
func (m *maker) word() string {
	if m.chance(0.3) {
		return one(m, m.known)
	}
	return one(m, oddTexts)
}

// text returns a value for a query or a header.
func (m *maker) text(s schema) string {
	switch v := m.value(s, 0).(type) {
	case string:
		return v
	case []any:
		all := make([]string, len(v))
		for i, item := range v {
			all[i] = fmt.Sprint(item)
		}
		return strings.Join(all, ",")
	default:
		return fmt.Sprint(v)
	}
}

// headerValue removes characters that clients cannot send in a header.
func headerValue(text string) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f {
			return '?'
		}
		return c
	}, text)
	return text[:min(len(text), 1000)]
}
