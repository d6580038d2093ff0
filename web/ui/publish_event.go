package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// sendView is the form that publishes an event, with the result.
type sendView struct {
	permissions
	Rule    string
	Subject string
	Body    string
	Offers  []string // subjects of the rule; none: events do not reach it
	Pinged  bool     // the rule's heartbeat takes pings
	// NoSample means that the rule accepts none of the made-up events: the body is empty.
	NoSample bool
	Sent     *web.PublishResult
	Before   bool   // the form was sent before, and this time published nothing
	Once     string // idempotency key of the form
	Error    string // error of publishing; empty: none
}

// eventPages serves the page that publishes an event.
type eventPages struct{ *UI }

func (u eventPages) sending(c client, r *http.Request) (view, error) {
	v, err := c.sendView(chi.URLParam(r, "name"), u.Now())
	if subject := r.URL.Query().Get("subject"); subject != "" {
		v.Subject = subject
	}
	return view{Title: "Send an event", Body: v, Still: true}, err
}

// sendView returns a form with the subject of the rule's trigger, or with another of its subjects if it has none.
func (c client) sendView(rule string, now time.Time) (sendView, error) {
	v := sendView{Rule: rule, Once: rand.Text()}
	var err error
	if v.permissions, err = c.may(); err != nil {
		return v, err
	}
	known, err := c.listed(rule)
	if err != nil {
		return v, err
	}
	var d document.Document
	if err := c.get(rulePath(rule), nil, &d); err != nil {
		return v, err
	}
	v.Offers, v.Pinged = known.Subjects, d.Trigger.Heartbeat != nil
	subject, key := d.Trigger.Subject(), d.Trigger.KeyExpression()
	if all := hearings(d); subject == "" && len(all) > 0 {
		subject, key = all[0].Subject, all[0].Key
	}
	v.Subject = withoutWildcards(subject)
	if !d.Trigger.Takes(v.Subject) {
		v.Body = sampleEvent(d, key)
		return v, nil
	}
	events, err := c.recent(rule, d)
	if err != nil {
		return v, err
	}
	if i := slices.IndexFunc(events, func(r recent) bool { return r.Subject != pingSubject }); i >= 0 {
		v.Body = events[i].Event
		return v, nil
	}
	v.Body, err = c.startingEvent(d, now)
	v.NoSample = v.Body == ""
	return v, err
}

// send publishes the event of a form after confirmation.
func (u eventPages) send(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	c := client{u.api, r}
	v, err := c.sendView(chi.URLParam(r, "name"), u.Now())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if event := r.PostFormValue("event"); strings.TrimSpace(event) != "" {
		v.Body, v.NoSample = event, false
	}
	if subject := strings.TrimSpace(r.PostFormValue("subject")); subject != "" {
		v.Subject = subject
	}
	status := http.StatusOK
	_, wrong := body("The body", v.Body)
	switch {
	case r.PostFormValue("sure") != "yes":
	case wrong != nil:
		v.Error, status = wrong.Error(), http.StatusBadRequest
	default:
		v.Sent = new(web.PublishResult)
		header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {onceKey(r.PostFormValue("once"), v.Body)}}
		path := "/events/" + url.PathEscape(v.Subject)
		a, err := c.send(http.MethodPost, path, nil, header, []byte(v.Body))
		if err == nil {
			err = a.decode(path, v.Sent)
		}
		v.Before = a.header.Get("Idempotent-Replayed") != "" || v.Sent.Duplicate
		if problem := new(web.Problem); errors.As(err, &problem) {
			v.Sent, v.Error, status = nil, problemText(problem), problem.Status
		} else if err != nil {
			u.fail(w, r, err)
			return
		}
	}
	u.render(w, r, status, "publish", view{Title: "Send an event", Body: v}, "")
}

// onceKey returns the idempotency key of a form and a body. Sending the same form twice publishes once, while a
// changed body publishes again. The result is empty if the form has no key.
func onceKey(form, body string) string {
	if form == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(body))
	return form + "-" + hex.EncodeToString(sum[:16])
}
