package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"deadman/internal/access"
	"deadman/internal/acklinks"
	"deadman/internal/webhooks"
)

const hooksPath = "/hooks/"

// hookReceiver takes webhooks in.
type hookReceiver struct {
	*responder
	hooks    func(name string) *webhooks.Webhook
	wire     EventPublisher
	repeats  *idempotency
	buttons  Buttons                  // nil: no messages have buttons
	guesses  *guesses                 // of tokens in unsigned presses of buttons
	unproven *semaphore[netip.Prefix] // by their client
	now      func() time.Time
}

// Buttons acknowledges alerts with buttons in messages of Slack and Mattermost. notify.Buttons implements it; see there for
// the errors. Implementations are safe for concurrent use.
type Buttons interface {
	// Press executes a press of a button that a webhook received, and returns the answer for the chat. kind is "slack" or
	// "mattermost".
	Press(ctx context.Context, kind, hook string, body []byte) (answer []byte, err error)
}

// hook publishes a third party's webhook as an event on the hook's subject. It requires a signature instead of a token.
//
//  1. The request proves its origin.
//  2. A repeat gets the first answer, for as long as answers are kept, even from another sender.
//  3. The hook answers success after the event is durable. Any other answer lets the sender try again.
func (a *hookReceiver) hook(w http.ResponseWriter, r *http.Request) {
	h := a.hooks(chi.URLParam(r, "name"))
	if h == nil {
		a.fail(w, r, problem(http.StatusNotFound, "no webhook with this name; webhooks are defined in the file of --hooks"))
		return
	}
	body, id, err := a.proven(w, r, h)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	switch {
	case h.IsButton():
		a.press(w, r, h, body)
		return
	case id == "":
		a.takeHook(w, r, h, body, "")
		return
	}
	sum := sha256.Sum256([]byte(h.Name + "\x00" + id))
	once := "hook-" + hex.EncodeToString(sum[:])
	before, err := a.repeats.memory.Begin(r.Context(), once, sum)
	switch {
	case errors.Is(err, access.ErrRunning):
		a.fail(w, r, problem(http.StatusConflict, "the same webhook request is in progress; send it again in a minute"))
	case err != nil:
		a.fail(w, r, err)
	case before != nil:
		answerAgain(w, *before)
	default:
		a.repeats.first(w, r, once, func(w http.ResponseWriter) { a.takeHook(w, r, h, body, id) })
	}
}

// proven reads a webhook once it has a permit, and verifies its signature. id is that of webhooks.Webhook.Verify.
func (a *hookReceiver) proven(w http.ResponseWriter, r *http.Request, h *webhooks.Webhook) (body []byte, id string, err error) {
	client := guesserOf(r)
	if full := a.unproven.acquire(client); full != nil {
		return nil, "", full
	}
	defer a.unproven.release(client)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(hookReadTime)) // only a writer outside a server lacks deadlines
	body, whole := readBody(r, MaxEventBytes)
	if !whole {
		return nil, "", problem(http.StatusRequestEntityTooLarge, "the body exceeds the limit of %d bytes, or is incomplete", MaxEventBytes)
	}
	id, err = h.Verify(r.Header.Get, body, a.now())
	return body, id, err
}

// takeHook publishes a webhook, and answers after it is durable. Its id is distinct from those of other hooks and
// tokens.
func (a *hookReceiver) takeHook(w http.ResponseWriter, r *http.Request, h *webhooks.Webhook, body []byte, id string) {
	stream, seq, repeated, err := a.wire.PublishEvent(r.Context(), h.Subject, body, headersOf(r), eventID(access.Actor{Name: hooksPath + h.Name}, h.Subject, id))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.write(w, r, http.StatusAccepted, PublishResult{Stream: stream, Seq: seq, Duplicate: repeated})
}

// headersOf returns the headers of a webhook that are published with it.
func headersOf(r *http.Request) map[string][]string {
	header := make(map[string][]string)
	for name, values := range r.Header {
		if name = strings.ToLower(name); belongs(name) || strings.HasPrefix(name, "x-github-") {
			header[name] = values
		}
	}
	return header
}

// press acknowledges the alerts of a button in a chat. The presses of Mattermost are not signed: their tokens are bounded
// like links.
func (a *hookReceiver) press(w http.ResponseWriter, r *http.Request, h *webhooks.Webhook, body []byte) {
	if a.buttons == nil {
		a.fail(w, r, problem(http.StatusNotFound, "this node has no channels with buttons"))
		return
	}
	shown := credential{string(body), byLink}
	if err := a.guesses.check(r, nil, shown); err != nil {
		a.fail(w, r, err)
		return
	}
	ctx := access.As(r.Context(), access.Actor{Addr: clientAddr(r.Context())})
	answer, err := a.buttons.Press(ctx, string(h.Scheme), h.Name, body)
	switch {
	case errors.Is(err, acklinks.ErrInvalid):
		a.guesses.refused(r, shown)
		a.fail(w, r, problem(http.StatusNotFound, "%v", err))
	case err != nil:
		a.fail(w, r, err)
	case answer == nil:
		w.WriteHeader(http.StatusOK)
	default:
		a.send(w, r, "application/json", http.StatusOK, answer)
	}
}
