package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"deadman/server"
	"deadman/web"
)

const (
	askTime   = 30 * time.Second // timeout of a request
	maxAnswer = 64 << 20         // limit of an answer, in bytes
	tokenHint = "put a token into the variable DEADMAN_TOKEN; whoever has one with the scope admin makes others with deadman token create"
	readyHint = "nothing is known of what became of it; look at what the node says of itself at /readyz, and in its log"
	startHint = "is deadman running? start it with: make run; or name it with --url"
)

// client calls a node over HTTP.
type client struct {
	base  string // without a trailing slash
	node  string // base without the password, for messages
	from  string // origin of base, for messages
	token string
	http  *http.Client
}

func addURL(flags *pflag.FlagSet, p *cli) {
	flags.StringVar(&p.url, "url", "", "where the node is (else DEADMAN_URL, else the node of the data folder here)")
}

// client returns a client for the node of --url, of DEADMAN_URL, of the data folder, or at the default address. It
// refuses to send a token to the default address, because another program may listen there.
func (p *cli) client() (*client, error) {
	c := &client{token: p.getenv("DEADMAN_TOKEN"), http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	switch {
	case p.url != "":
		c.base, c.from = p.url, "--url"
	case p.getenv("DEADMAN_URL") != "":
		c.base, c.from = p.getenv("DEADMAN_URL"), "DEADMAN_URL"
	default:
		announced, file, err := p.endpoints()
		if err != nil {
			return nil, err
		}
		c.base, c.from = announced.HTTP, file
	}
	if c.base == "" {
		c.base, c.from = "http://"+server.DefaultHTTPAddr, "the default"
		if c.token != "" {
			return nil, usage("DEADMAN_TOKEN is set, and nothing says which node it is for; set DEADMAN_URL=%s too if it is that one, or %s", c.base, nameHint)
		}
	}
	u, err := url.Parse(c.base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, usage("%s (%s) is no web address; write it in full, such as http://127.0.0.1:8080", withoutUser(c.base), c.from)
	}
	c.base, c.node = strings.TrimRight(c.base, "/"), strings.TrimRight(u.Redacted(), "/")
	return c, nil
}

// withoutUser removes a possible user and password from an address.
func withoutUser(address string) string {
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		return "…" + address[at:]
	}
	return address
}

// ask sends a request to the API and returns the body of a successful answer.
func (c *client) ask(ctx context.Context, method, path string, query url.Values, body []byte, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer, err := c.send(ctx, method, path, query, body, header)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer of %s broke off: %w", c.node, err)
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s is over %d MiB; ask for less with --limit", c.node, maxAnswer>>20)
	}
	return data, nil
}

// send sends a request and returns a successful answer. The caller closes its body.
func (c *client) send(ctx context.Context, method, path string, query url.Values, body []byte, header http.Header) (*http.Response, error) {
	at := c.base + "/api/v1" + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	there := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { there = true }})
	request, err := http.NewRequestWithContext(traced, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	request.Header.Set("User-Agent", "deadman/"+version)
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err, there)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		defer answer.Body.Close()
		return nil, c.refused(answer)
	}
	return answer, nil
}

// unreachable returns the error of a request without an answer. It distinguishes a silent node from an unreachable
// one.
func (c *client) unreachable(ctx context.Context, err error, there bool) error {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	if there && ctx.Err() != nil {
		return fmt.Errorf("%s (from %s) does not answer within %s\n%s", c.node, c.from, askTime, readyHint)
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err // drops the URL, which the message has already
	}
	return fmt.Errorf("cannot reach %s (from %s): %w\n%s", c.node, c.from, err, startHint)
}

// refused returns the error of an unsuccessful answer.
func (c *client) refused(answer *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // an unparsable type is not a problem's
	p := new(web.Problem)
	if err == nil && kind == "application/problem+json" && json.Unmarshal(data, p) == nil {
		return refusal{p}
	}
	return fmt.Errorf("%s (from %s) answers %s, but not as deadman does; is another program there?", c.node, c.from, answer.Status)
}

// refusal is an error with the node's problem.
type refusal struct{ *web.Problem }

func (r refusal) Error() string {
	switch {
	case r.Status == http.StatusUnauthorized:
		return r.Title + ": " + r.Detail + "\n" + tokenHint
	case len(r.Errors) > 1:
		lines := []string{r.Title}
		for _, d := range r.Errors {
			lines = append(lines, "  "+d.Error())
		}
		return strings.Join(lines, "\n")
	case r.Detail == "":
		return r.Title
	}
	return r.Title + ": " + r.Detail
}

// Unwrap returns the problem for errors.As.
func (r refusal) Unwrap() error { return r.Problem }

// get reads a resource, and returns it decoded and raw.
func get[T any](ctx context.Context, c *client, path string, query url.Values) (v T, raw []byte, err error) {
	raw, err = c.ask(ctx, http.MethodGet, path, query, nil, nil)
	if err != nil {
		return v, nil, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, nil, c.unreadable(err)
	}
	return v, raw, nil
}

func (c *client) unreadable(err error) error {
	return fmt.Errorf("the answer of %s cannot be read: %w; are client and node of the same version?", c.node, err)
}

// tell sends a request with v as JSON, unless it is nil, and returns the answer decoded and raw.
func tell[T any](ctx context.Context, c *client, method, path string, query url.Values, v any) (out T, raw []byte, err error) {
	var body []byte
	header := http.Header{}
	if v != nil {
		header.Set("Content-Type", "application/json")
		if body, err = json.Marshal(v); err != nil {
			return out, nil, err
		}
	}
	raw, err = c.ask(ctx, method, path, query, body, header)
	if err != nil {
		return out, nil, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, nil, c.unreadable(err)
	}
	return out, raw, nil
}
