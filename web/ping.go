package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"deadman/internal/pings"
)

// Pings receives pings and manages their addresses. Implementations are safe for concurrent use.
type Pings interface {
	// Resolve finds the target of a ping; see pings.Resolver for the rules and errors.
	Resolve(ctx context.Context, p pings.Path, create bool) (to pings.Target, signal pings.Signal, isNew bool, err error)
	// Receive records a ping: if it returns nil, the effects are committed. See pings.Receiver for the errors.
	Receive(ctx context.Context, p pings.Ping) error
	// Addresses, Create, Sharers and Delete manage ping addresses, History returns the ping log; see pings.Store and
	// pings.Resolver for the errors.
	Addresses(ctx context.Context, ruleID int32) ([]pings.Address, error)
	Create(ctx context.Context, a pings.Address, replace bool) (kept pings.Address, created bool, err error)
	Sharers(ctx context.Context, id string) ([]string, error)
	Delete(ctx context.Context, ruleID int32, key string) error
	History(ctx context.Context, ruleID int32, key string, before int64, limit int) ([]pings.Entry, error)
}

const (
	// pingSlack is how much of a body is read beyond the stored part, in bytes, so that a client that sends more still
	// gets an answer.
	pingSlack = 1 << 20
	// pingAgent is the stored length of the User-Agent header, in bytes.
	pingAgent = 200
	// pingTime is the limit for committing a ping: less than the time left to write the answer after the slowest
	// permitted body.
	pingTime = 10 * time.Second
	// pingMethods are the accepted methods. healthchecks ignores the method; here, a client that deletes or requests
	// something else hardly means to report success.
	pingMethods = "GET, HEAD, POST, PUT"
)

// pingReceiver takes pings in.
type pingReceiver struct {
	*responder
	pings   Pings
	metrics *Metrics // nil: pings are not counted
}

// ping receives a ping. The URL is a secret, and needs no token. The answers are those that clients of healthchecks know
// (https://healthchecks.io/docs/http_api): a word of plain text.
func (a *pingReceiver) ping(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("Ping-Body-Limit", strconv.Itoa(pings.MaxBody))
	if r.Method == http.MethodOptions { // preflight of a browser
		h.Set("Access-Control-Allow-Methods", pingMethods)
		h.Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	created, err := a.takePing(r)
	if a.metrics != nil {
		a.metrics.Pinged(err)
	}
	switch {
	case errors.Is(err, pings.ErrMethodNotAllowed):
		h.Set("Allow", pingMethods)
		a.failPing(w, r, err)
	case err != nil:
		a.failPing(w, r, err)
	case created:
		a.pingText(w, r, http.StatusCreated, "Created")
	default:
		a.pingText(w, r, http.StatusOK, "OK")
	}
}

// takePing reads a ping and records it. created reports whether the ping created its key: a refused ping creates none.
//
// Recording continues if the client disconnects: its result shows whether the database is reachable, and senders must
// not influence that.
func (a *pingReceiver) takePing(r *http.Request) (created bool, err error) {
	p, path, err := readPing(r)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), pingTime)
	defer cancel()
	var isNew bool
	if p.Target, p.Signal, isNew, err = a.pings.Resolve(ctx, path, r.URL.Query().Get("create") == "1"); err != nil {
		return false, err
	}
	if err := a.pings.Receive(ctx, p); err != nil || !isNew {
		return false, err
	}
	_, created, err = a.pings.Create(ctx, pings.Address{RuleID: p.RuleID, Rule: p.Rule, Key: p.Key}, false)
	return created, err
}

// readPing reads everything of a ping except the meaning of its path.
func readPing(r *http.Request) (p pings.Ping, path pings.Path, err error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut:
	default:
		return p, path, pings.ErrMethodNotAllowed
	}
	if path, err = pings.ReadPath(r.URL.EscapedPath()); err != nil {
		return p, path, err
	}
	if query := r.URL.Query(); query.Has("rid") {
		if p.Run, err = pings.ReadRun(query.Get("rid")); err != nil {
			return p, path, err
		}
	}
	p.Agent = truncate(r.UserAgent(), pingAgent)
	p.Body, p.BodySize, err = readPingBody(r.Body)
	return p, path, err
}

// readPingBody reads the stored part of a body, and its size. It replaces invalid UTF-8. It returns
// pings.ErrBodyTruncated.
func readPingBody(body io.Reader) (kept string, size int, err error) {
	first, err := io.ReadAll(io.LimitReader(body, pings.MaxBody+1))
	if err != nil {
		return "", 0, pings.ErrBodyTruncated
	}
	more, err := io.Copy(io.Discard, io.LimitReader(body, pingSlack))
	if err != nil {
		return "", 0, pings.ErrBodyTruncated
	}
	return truncate(string(first), pings.MaxBody), len(first) + int(more), nil
}

// truncate returns at most the given number of bytes of a text. It replaces invalid UTF-8.
func truncate(s string, limit int) string {
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// failPing answers a refused ping with a word that clients know.
func (a *pingReceiver) failPing(w http.ResponseWriter, r *http.Request, err error) {
	switch fault := pings.ErrorInfoOf(err); {
	case fault.Text != "":
		if !fault.IsClientError() {
			w.Header().Set("Retry-After", "1")
		}
		a.pingText(w, r, fault.Status, fault.Text)
	default:
		p := a.refuse(r.Context(), r.Method, logged(r.URL.Path), err)
		for name, values := range p.GetHeaders() {
			w.Header()[name] = values
		}
		a.pingText(w, r, p.Status, p.Detail)
	}
}

// pingText answers with a word of plain text.
func (a *pingReceiver) pingText(w http.ResponseWriter, r *http.Request, status int, text string) {
	a.send(w, r, "text/plain; charset=utf-8", status, []byte(text))
}
