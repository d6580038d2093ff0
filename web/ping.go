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

// Pings takes pings in. Implementations are safe for concurrent use.
type Pings interface {
	// Resolve finds whose a ping is; pings.Resolver says how, and which errors it returns.
	Resolve(ctx context.Context, p pings.Path, create bool) (to pings.Target, says pings.Signal, created bool, err error)
	// Receive takes a ping in: where it returns nil, what it says is committed. pings.Receiver says
	// which errors it returns.
	Receive(ctx context.Context, p pings.Ping) error
	// Addresses, Address, Create, Sharers and Delete are about where pings come in, History is what came;
	// pings.Store and pings.Resolver say which errors they return.
	Addresses(ctx context.Context, ruleID int32) ([]pings.Address, error)
	Create(ctx context.Context, a pings.Address, replace bool) (kept pings.Address, created bool, err error)
	Sharers(ctx context.Context, id string) ([]string, error)
	Delete(ctx context.Context, ruleID int32, key string) error
	History(ctx context.Context, ruleID int32, key string, before int64, limit int) ([]pings.Entry, error)
}

const (
	// pingSlack is how much of a body is read beyond what is kept of it, in bytes, so that a
	// client that sends more has its answer all the same.
	pingSlack = 1 << 20
	// pingAgent is how much is kept of what a client calls itself, in bytes.
	pingAgent = 200
	// pingTime is how long a ping that is here may take to be committed: less than is left to write
	// the answer after a body that came as slowly as it may.
	pingTime = 10 * time.Second
	// pingMethods are those that pings come by. Theirs looks at none; one that takes away or
	// asks for something else is hardly meant to say that all is well.
	pingMethods = "GET, HEAD, POST, PUT"
)

// ping takes in a ping. The address is a secret, and needs no token. The answers are those that
// clients of healthchecks know (https://healthchecks.io/docs/http_api): a word of plain text.
func (a *api) ping(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("Ping-Body-Limit", strconv.Itoa(pings.MaxBody))
	if r.Method == http.MethodOptions { // a browser asks whether it may
		h.Set("Access-Control-Allow-Methods", pingMethods)
		h.Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	created, err := a.takePing(r)
	if a.Metrics != nil {
		a.Metrics.Pinged(err)
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

// takePing reads a ping and takes it in. created reports whether its key was made known by it.
//
// Once a ping is here it is taken in or not, whoever hangs up meanwhile: what comes of it says
// whether the database could be reached, and no sender may have a say in that.
func (a *api) takePing(r *http.Request) (created bool, err error) {
	p, path, err := readPing(r)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), pingTime)
	defer cancel()
	if p.Target, p.Signal, created, err = a.Pings.Resolve(ctx, path, r.URL.Query().Get("create") == "1"); err != nil {
		return false, err
	}
	return created, a.Pings.Receive(ctx, p)
}

// readPing reads all that a ping says, but for what its path means.
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
	p.Agent = begin(r.UserAgent(), pingAgent)
	p.Body, p.BodySize, err = readPingBody(r.Body)
	return p, path, err
}

// readPingBody reads what is kept of a body, and how long it is. What is no UTF-8 is replaced. It
// returns pings.ErrBodyTruncated.
func readPingBody(body io.Reader) (kept string, size int, err error) {
	first, err := io.ReadAll(io.LimitReader(body, pings.MaxBody+1))
	if err != nil {
		return "", 0, pings.ErrBodyTruncated
	}
	more, err := io.Copy(io.Discard, io.LimitReader(body, pingSlack))
	if err != nil {
		return "", 0, pings.ErrBodyTruncated
	}
	return begin(string(first), pings.MaxBody), len(first) + int(more), nil
}

// begin is the beginning of a text, at most so many bytes of it. What is no UTF-8 is replaced.
func begin(s string, most int) string {
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// failPing answers a ping that was not taken in, with a word that clients know.
func (a *api) failPing(w http.ResponseWriter, r *http.Request, err error) {
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
func (a *api) pingText(w http.ResponseWriter, r *http.Request, status int, text string) {
	a.send(w, r, "text/plain; charset=utf-8", status, []byte(text))
}
