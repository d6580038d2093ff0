package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"deadman/internal/access"
)

// IdempotencyStore keeps the answers to requests with an Idempotency-Key for 24 hours. The store implements it.
// Implementations are safe for concurrent use.
type IdempotencyStore interface {
	// Begin returns nil to the first request with a key, and its answer to later ones. While the answer is missing it
	// returns access.ErrRunning, and access.ErrOtherBody if the first request had another body.
	Begin(ctx context.Context, key string, body [32]byte) (*access.StoredResponse, error)
	// Known reports whether a request with a key began before: it is answered, in progress, or its answer was lost.
	Known(ctx context.Context, key string) (bool, error)
	// Finish stores the answer to the first request.
	Finish(ctx context.Context, key string, r access.StoredResponse) error
	// Forget frees the key, unless a change was made under it: that is stored with the change.
	Forget(ctx context.Context, key string) error
}

const idempotencyHeader = "Idempotency-Key"

// maxIdempotencyKey is the longest Idempotency-Key, in bytes.
const maxIdempotencyKey = 256

// rememberTime is how long storing an answer may take after its client disconnected.
const rememberTime = 5 * time.Second

func onceParameter() *huma.Param {
	return &huma.Param{
		Name: idempotencyHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeString}, Example: "c8b9b1e6-order-1234",
		Description: "Unique text of up to 256 bytes. For 24 hours, the same request with the same key is not executed again and returns the first response.",
	}
}

// idempotency answers repeated requests as the first ones.
type idempotency struct {
	*responder
	memory IdempotencyStore // nil: a request with a key is refused
	quotas *quotaAPI
}

// idempotent answers a repeated request with the first answer.
//
//  1. The first request with a key is executed. Keys are separate by sender and address, and so are the hashes of their
//     bodies.
//  2. A successful answer is stored before it is sent.
//  3. Any other answer frees the key: a client may correct its request, or try again after an outage of the database,
//     under the same key.
//  4. A tenant whose quota has no room for another answer executes nothing under a new key.
func (a *idempotency) idempotent(ctx huma.Context, next func(huma.Context)) {
	o, _ := operationOf(ctx)
	key := ctx.Header(idempotencyHeader)
	if !o.IdempotencyKey || key == "" {
		next(ctx)
		return
	}
	r, w := humachi.Unwrap(ctx)
	if err := a.wrongKey(key); err != nil {
		a.fail(w, r, err)
		return
	}
	body, whole := readBody(r, o.Limit)
	if !whole {
		next(ctx) // it refuses the body
		return
	}
	id, bodyHash := onceID(r, key), sha256.Sum256(body)
	if err := a.mayBegin(ctx.Context(), id); err != nil {
		a.fail(w, r, err)
		return
	}
	before, err := a.memory.Begin(ctx.Context(), id, bodyHash)
	switch {
	case err != nil:
		a.fail(w, r, err)
	case before != nil:
		answerAgain(w, *before)
	default:
		a.first(w, r, id, func(w http.ResponseWriter) {
			next(humachi.NewContext(ctx.Operation(), r.WithContext(access.WithOnce(r.Context(), id)), w))
		})
	}
}

// mayBegin refuses a request whose answer the quotas have no room for. A request that began before is not refused: it may
// have made its change, or published its event, and its client has to learn that.
func (a *idempotency) mayBegin(ctx context.Context, id string) error {
	if !a.quotas.bounds(ctx) {
		return nil
	}
	if known, err := a.memory.Known(ctx, id); known || err != nil {
		return err
	}
	return a.quotas.mayKeepAnswer(ctx)
}

func (a *idempotency) wrongKey(key string) error {
	switch {
	case len(key) > maxIdempotencyKey:
		return refused("header."+idempotencyHeader, "the key exceeds the limit of %d bytes", maxIdempotencyKey)
	case a.memory == nil:
		return refused("header."+idempotencyHeader, "this node does not support idempotency keys; send the request without the key")
	}
	return nil
}

// readBody reads the body and puts it back. whole is false if the body is too large or incomplete.
func readBody(r *http.Request, limit int64) (body []byte, whole bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	return body, err == nil && int64(len(body)) <= limit
}

// onceID returns an id that separates keys by actor and address.
func onceID(r *http.Request, key string) string {
	who := access.ActorOf(r.Context())
	return keyOf(who.TokenID, who.Name, r.Method, r.URL.EscapedPath(), r.URL.RawQuery, key)
}

// keyOf hashes parts into one key. No part contains a NUL.
func keyOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// first executes the request, and stores the answer.
func (a *idempotency) first(w http.ResponseWriter, r *http.Request, id string, do func(http.ResponseWriter)) {
	kept := &recordedResponse{header: w.Header(), status: http.StatusOK}
	finished := false
	defer func() {
		if !finished {
			a.forget(r, id)
		}
	}()
	do(kept)
	if kept.status < http.StatusMultipleChoices {
		storing, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), rememberTime)
		defer cancel()
		finished = true // it was executed, and must not be executed again
		if err := a.memory.Finish(storing, id, kept.reply()); err != nil {
			a.log.ErrorContext(storing, "an answer cannot be kept for its Idempotency-Key", "path", r.URL.Path, "err", err)
		}
		a.quotas.keepAnswer(r.Context(), kept.body.Len())
	}
	w.WriteHeader(kept.status)
	if _, err := w.Write(kept.body.Bytes()); err != nil {
		a.log.DebugContext(r.Context(), "the client left before the answer", "path", r.URL.Path, "err", err)
	}
}

// forget frees the key of a request that was not executed.
func (a *idempotency) forget(r *http.Request, id string) {
	storing, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), rememberTime)
	defer cancel()
	if err := a.memory.Forget(storing, id); err != nil {
		a.log.ErrorContext(storing, "an Idempotency-Key stays taken", "path", r.URL.Path, "err", err)
	}
}

// recordedResponse buffers an answer until it is stored.
type recordedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *recordedResponse) Header() http.Header         { return k.header }
func (k *recordedResponse) WriteHeader(status int)      { k.status = status }
func (k *recordedResponse) Write(p []byte) (int, error) { return k.body.Write(p) }

func (k *recordedResponse) reply() access.StoredResponse {
	r := access.StoredResponse{Status: k.status, Header: make(map[string]string), Body: k.body.Bytes()}
	for _, name := range []string{"Content-Type", "ETag", "Location"} {
		if v := k.header.Get(name); v != "" {
			r.Header[name] = v
		}
	}
	return r
}

func answerAgain(w http.ResponseWriter, r access.StoredResponse) {
	for name, value := range r.Header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Idempotent-Replayed", "true")
	w.WriteHeader(r.Status)
	_, _ = fmt.Fprintf(w, "%s", r.Body) // a client that disconnected needs no answer
}
