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
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"deadman/web"
)

const (
	requestTimeout = 30 * time.Second // timeout of a request
	maxResponse    = 64 << 20         // limit of a response, in bytes
	tokenHint      = "set DEADMAN_TOKEN to a token; a token with the scope admin can create others with deadman token create"
	readyHint      = "the request may have been executed; " + checkNodeHint
	checkNodeHint  = "check /readyz and the log of the node"
	startHint      = "is deadman running? start it with deadman serve, or give its address with --url"
)

// client calls a node over HTTP.
type client struct {
	base  string // without a trailing slash
	node  string // base without the password, for messages
	from  string // origin of base, for messages
	token string
	http  *http.Client
}

// newClient returns a client for the node at base. The name of the source of base is for messages.
func newClient(base, from, token string) (*client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, usage("%s (%s) is not a valid URL; write it in full, such as http://127.0.0.1:8080", withoutUser(base), from)
	}
	return &client{
		base: strings.TrimRight(base, "/"), node: strings.TrimRight(u.Redacted(), "/"), from: from, token: token,
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

func addURL(flags *pflag.FlagSet, io *cli) {
	textFlagVar(flags, &io.url, "url", "url", "", "address of the node (default: DEADMAN_URL, or the node of the local data folder)")
}

// withoutUser removes a possible user and password from an address.
func withoutUser(address string) string {
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		return "…" + address[at:]
	}
	return address
}

// request sends a request to the API and returns the body of a successful response.
func (c *client) request(ctx context.Context, method, path string, query url.Values, body []byte, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := c.send(ctx, method, path, query, body, header)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("response of %s interrupted: %w", c.node, err)
	case len(data) > maxResponse:
		return nil, fmt.Errorf("response of %s exceeds %d MiB; reduce --limit", c.node, maxResponse>>20)
	}
	return data, nil
}

// send sends a request and returns a successful response. The caller closes its body.
func (c *client) send(ctx context.Context, method, path string, query url.Values, body []byte, header http.Header) (*http.Response, error) {
	at := c.base + "/api/v1" + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	connected := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
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
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err, connected)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, c.refused(response)
	}
	return response, nil
}

// unreachable returns the error of a request without a response. It distinguishes a node that does not respond from
// an unreachable one.
func (c *client) unreachable(ctx context.Context, err error, connected bool) error {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	if connected && ctx.Err() != nil {
		return fmt.Errorf("%s (from %s) did not respond within %s\n%s", c.node, c.from, requestTimeout, readyHint)
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err // drops the URL, which the message has already
	}
	return fmt.Errorf("cannot reach %s (from %s): %w\n%s", c.node, c.from, err, startHint)
}

// refused returns the error of an unsuccessful response.
func (c *client) refused(response *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // an unparsable type is not the type of a problem
	p := new(web.Problem)
	if err == nil && kind == "application/problem+json" && json.Unmarshal(data, p) == nil {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0: the header is missing, or has a date
		return refusal{p, time.Duration(max(seconds, 0)) * time.Second}
	}
	return fmt.Errorf("%s (from %s) responded with %s, but not in the format of deadman; is another program listening there?", c.node, c.from, response.Status)
}

// refusal is an error with the node's problem.
type refusal struct {
	*web.Problem
	retryAfter time.Duration // as the node requests; 0: it does not
}

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
	case strings.Contains(strings.ToLower(r.Detail), strings.ToLower(r.Title)): // such as "not found"
		return r.Detail
	}
	return r.Title + ": " + r.Detail
}

// Unwrap returns the problem for errors.As.
func (r refusal) Unwrap() error { return r.Problem }

// nameFlags replaces the places in a refused request by the flags and arguments of the command: it is an error of the
// command line. An error with another place stays as it is.
func nameFlags(cmd *cobra.Command, err error) error {
	var r refusal
	if !errors.As(err, &r) || len(r.Errors) == 0 {
		return err
	}
	named := *r.Problem
	named.Errors = slices.Clone(r.Errors)
	messages := make([]string, len(r.Errors))
	for i, d := range r.Errors {
		if named.Errors[i].Location = flagOf(cmd, d.Location); named.Errors[i].Location == "" {
			return err
		}
		messages[i] = named.Errors[i].Error()
	}
	named.Detail = strings.Join(messages, "; ")
	return usageError{refusal{&named, r.retryAfter}}
}

// flagOf returns the flag or argument of a command that a place in a request has its value of, or "".
func flagOf(cmd *cobra.Command, location string) string {
	in, name, _ := strings.Cut(location, ".")
	if location == "body.match" && cmd.Flags().Lookup("all") != nil {
		return "filters"
	}
	name = name[strings.LastIndex(name, ".")+1:]
	if argument := strings.ToUpper(name); in == "path" && slices.Contains(strings.FieldsFunc(cmd.Use, func(r rune) bool { return !unicode.IsUpper(r) }), argument) {
		return argument
	}
	if in != "query" && in != "body" {
		return ""
	}
	candidates := []string{strings.ReplaceAll(name, "_", "-"), name[strings.LastIndex(name, "_")+1:]}
	if name == "until" {
		candidates = append(candidates, "for")
	}
	isFlag := func(name string) bool { return name != "" && cmd.Flags().Lookup(name) != nil }
	at := slices.IndexFunc(candidates, cmd.Flags().Changed)
	if at < 0 {
		at = slices.IndexFunc(candidates, isFlag)
	}
	if at < 0 {
		return ""
	}
	return "--" + candidates[at]
}

// get reads a resource, and returns it decoded and raw.
func get[T any](ctx context.Context, c *client, path string, query url.Values) (v T, raw []byte, err error) {
	raw, err = c.request(ctx, http.MethodGet, path, query, nil, nil)
	if err != nil {
		return v, nil, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, nil, c.unreadable(err)
	}
	return v, raw, nil
}

func (c *client) unreadable(err error) error {
	return fmt.Errorf("invalid response from %s: %w; do the versions of client and node match?", c.node, err)
}

// call sends a request with v as JSON, unless it is nil, and returns the response decoded and raw.
func call[T any](ctx context.Context, c *client, method, path string, query url.Values, v any) (out T, raw []byte, err error) {
	var body []byte
	header := http.Header{}
	if v != nil {
		header.Set("Content-Type", "application/json")
		if body, err = json.Marshal(v); err != nil {
			return out, nil, err
		}
	}
	raw, err = c.request(ctx, method, path, query, body, header)
	if err != nil {
		return out, nil, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, nil, c.unreadable(err)
	}
	return out, raw, nil
}
