package acklinks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Store reads the key and the alerts of links. Implementations are safe for concurrent use.
type Store interface {
	// AckKey returns the key of all tokens. It creates one if there is none.
	AckKey(ctx context.Context) ([]byte, error)
	// Alert returns an alert, or futurejobs.ErrNotFound.
	Alert(ctx context.Context, id alerts.ID) (futurejobs.ListedAlert, error)
	// Job returns a pending job, or futurejobs.ErrNotFound.
	Job(ctx context.Context, rule, key string) (futurejobs.ListedJob, error)
	// RevokeAckLinks replaces the key.
	RevokeAckLinks(ctx context.Context) error
	// MessageAlerts returns the newest alert of each key of a notification, while its job is pending, in the order of ids
	// from after on, with the acknowledgement of its job.
	MessageAlerts(ctx context.Context, message int64, after alerts.ID, limit int) ([]futurejobs.ListedAlert, error)
}

// Acks acknowledges alerts. An alert of an ended job is futurejobs.ErrJobEnded to Acknowledge, and left out by
// AcknowledgeAll, which returns the number of the others.
type Acks interface {
	Acknowledge(ctx context.Context, id alerts.ID, a futurejobs.Ack) (futurejobs.ListedJob, error)
	AcknowledgeAll(ctx context.Context, all []futurejobs.ListedAlert, a futurejobs.Ack) (int, error)
}

// Uses remembers for Lifetime which links were used. store.RequestStore implements it.
type Uses interface {
	Begin(ctx context.Context, key string, body [32]byte) (*access.StoredResponse, error)
	Finish(ctx context.Context, key string, r access.StoredResponse) error
	Forget(ctx context.Context, key string) error
	Known(ctx context.Context, key string) (bool, error)
}

// Links opens and uses links. It is safe for concurrent use.
type Links struct {
	Store Store
	Acks  Acks
	Uses  Uses
	// Enabled reports whether a channel has links or, with the name of a webhook, buttons whose presses arrive there.
	Enabled func(channel, hook string) bool
	Now     func() time.Time
	Zone    func() *time.Location // of the times in texts
}

// State is the state of the alerts of a link.
type State struct {
	Channel   string
	ExpiresAt time.Time
	First     futurejobs.ListedAlert // the alert; of a message: an unacknowledged one if there is any. Its Ack holds, or is nil
	Alerts    int                    // number of alerts of the link with pending jobs
	Open      int                    // number of them without an acknowledgement
	IsMessage bool                   // the link is for all alerts of a message
	Zone      *time.Location         // of the times in texts
}

// TimeText returns a time as text.
func (s State) TimeText(t time.Time) string { return t.In(s.Zone).Format("Mon 2 Jan 2006 15:04 MST") }

// maxName is the maximum length of the name of a person, in bytes.
const maxName = 100

// Check verifies the token of a link and reads no alerts. It returns ErrInvalid and ErrExpired.
func (l *Links) Check(ctx context.Context, token string) error {
	_, err := l.target(ctx, token, "")
	return err
}

// Open returns the state of a link's alerts. It changes nothing. It returns ErrInvalid, ErrExpired and, if the link was used
// and an alert is not acknowledged any more, ErrUsed with the state.
func (l *Links) Open(ctx context.Context, token string) (State, error) {
	target, err := l.target(ctx, token, "")
	if err != nil {
		return State{}, err
	}
	s, err := l.state(ctx, target)
	if err != nil || s.Open == 0 {
		return s, err
	}
	use, _ := useOf(target)
	used, err := l.Uses.Known(ctx, use)
	if err == nil && used {
		err = fmt.Errorf("%w; %s", ErrUsed, usedRemedy)
	}
	return s, err
}

// usedRemedy follows ErrUsed in texts.
const usedRemedy = "its acknowledgement was removed or has ended since; acknowledge the alert in deadman"

// Revoke makes all tokens invalid.
func (l *Links) Revoke(ctx context.Context) error { return l.Store.RevokeAckLinks(ctx) }

// target verifies the token of a link or, with the name of a webhook, of a button: a reader of a link presses no button,
// whose sender names its person. The channel must still have links, or buttons of that webhook.
func (l *Links) target(ctx context.Context, token, hook string) (Target, error) {
	key, err := l.Store.AckKey(ctx)
	if err != nil {
		return Target{}, err
	}
	target, err := Verify(key, token, l.Now())
	if target.Button != (hook != "") {
		return Target{}, ErrInvalid
	}
	if err == nil && !l.Enabled(target.Channel, hook) {
		return Target{}, fmt.Errorf("%w: the channel %s has no such links any more", ErrInvalid, target.Channel)
	}
	return target, err
}

// pageSize is the number of alerts acknowledged in one transaction.
const pageSize = futurejobs.MaxLimit

func (l *Links) state(ctx context.Context, target Target) (s State, err error) {
	s = State{Channel: target.Channel, ExpiresAt: target.ExpiresAt, IsMessage: target.Message != 0, Zone: l.Zone()}
	if !s.IsMessage {
		s.First, s.Alerts, err = l.alert(ctx, target.Alert)
		if s.Alerts > 0 && s.First.Ack == nil {
			s.Open = 1
		}
		return s, err
	}
	for page, err := range l.pages(ctx, target.Message) {
		if err != nil {
			return s, err
		}
		for _, a := range page {
			if s.Alerts == 0 || a.Ack == nil && s.First.Ack != nil {
				s.First = a
			}
			s.Alerts++
			if a.Ack == nil {
				s.Open++
			}
		}
	}
	if s.Alerts > 0 {
		ack := s.First.Ack
		s.First, err = l.Store.Alert(ctx, s.First.ID) // with its text
		s.First.Ack = ack
	}
	return s, err
}

// pages returns the alerts of a message in pages. Acknowledgements that have ended are left out.
func (l *Links) pages(ctx context.Context, message int64) func(func([]futurejobs.ListedAlert, error) bool) {
	return func(yield func([]futurejobs.ListedAlert, error) bool) {
		for after, now := (alerts.ID{}), l.Now(); ; {
			page, err := l.Store.MessageAlerts(ctx, message, after, pageSize)
			for i, a := range page {
				if a.Ack != nil && !a.Ack.Holds(now) {
					page[i].Ack = nil
				}
			}
			if !yield(page, err) || err != nil || len(page) < pageSize {
				return
			}
			after = page[pageSize-1].ID
		}
	}
}

// alert returns an alert with the acknowledgement of its job, and 1 if the job is pending.
func (l *Links) alert(ctx context.Context, id alerts.ID) (a futurejobs.ListedAlert, pending int, err error) {
	a, err = l.Store.Alert(ctx, id)
	if errors.Is(err, futurejobs.ErrNotFound) {
		return a, 0, fmt.Errorf("%w: its alert is no longer stored", ErrInvalid)
	}
	if err != nil {
		return a, 0, err
	}
	a.Ack = nil
	job, err := l.Store.Job(ctx, a.Rule, a.Key)
	switch {
	case errors.Is(err, futurejobs.ErrNotFound):
		return a, 0, nil
	case err != nil:
		return a, 0, err
	}
	for _, raised := range job.Alerts {
		if raised == id {
			pending = 1
		}
	}
	if pending == 1 && job.Ack != nil && job.Ack.Holds(l.Now()) {
		a.Ack = job.Ack
	}
	return a, pending, nil
}

// Use acknowledges the alerts of a link or, with the name of the webhook that received its press, of a button, until they
// are resolved, and returns their state. The author is the channel, and the note has the name of the person, if given.
//
//  1. The token is verified.
//  2. Alerts that are acknowledged or resolved stay as they are. If all are, nothing else happens.
//  3. The link counts as used, for all channels. It returns ErrUsed if it was used before.
//  4. The alerts are acknowledged. After an error the link can be used again.
func (l *Links) Use(ctx context.Context, token, hook, name string) (State, error) {
	target, err := l.target(ctx, token, hook)
	if err != nil {
		return State{}, err
	}
	s, err := l.state(ctx, target)
	if err != nil || s.Open == 0 {
		return s, err
	}
	use, body := useOf(target)
	before, err := l.Uses.Begin(ctx, use, body)
	switch {
	case errors.Is(err, access.ErrRunning):
		return s, fmt.Errorf("%w a moment ago, and its request is in progress", ErrUsed)
	case err != nil:
		return s, err
	case before != nil:
		usedAt, err := time.Parse(time.RFC3339, string(before.Body))
		if err != nil {
			return s, fmt.Errorf("use of a link: %w", err)
		}
		return s, fmt.Errorf("%w at %s; %s", ErrUsed, s.TimeText(usedAt), usedRemedy)
	}
	if err := l.acknowledge(access.As(ctx, access.Actor{Name: "channel:" + target.Channel, Addr: access.ActorOf(ctx).Addr}), target, note(target, name)); err != nil {
		return s, errors.Join(err, l.Uses.Forget(context.WithoutCancel(ctx), use))
	}
	used := access.StoredResponse{Status: http.StatusOK, Body: []byte(l.Now().UTC().Format(time.RFC3339))}
	if err := l.Uses.Finish(context.WithoutCancel(ctx), use, used); err != nil {
		return s, err
	}
	return l.state(ctx, target)
}

// useOf returns the key of a link's use, which is the same in all channels and messages with the target.
func useOf(t Target) (key string, body [32]byte) {
	what := "acknowledge " + t.Alert.String()
	if t.Message != 0 {
		what = fmt.Sprintf("acknowledge message %d", t.Message)
	}
	body = sha256.Sum256([]byte(what))
	return "acklink-" + hex.EncodeToString(body[:]), body
}

// acknowledge acknowledges the alerts of a target that are not acknowledged.
func (l *Links) acknowledge(ctx context.Context, target Target, why string) error {
	ack := futurejobs.Ack{Until: checks.Forever, Note: why}
	if target.Message == 0 {
		_, err := l.Acks.Acknowledge(ctx, target.Alert, ack)
		if errors.Is(err, futurejobs.ErrJobEnded) {
			return nil // it was resolved this moment
		}
		return err
	}
	for page, err := range l.pages(ctx, target.Message) {
		if err != nil {
			return err
		}
		open := make([]futurejobs.ListedAlert, 0, len(page))
		for _, a := range page {
			if a.Ack == nil {
				open = append(open, a)
			}
		}
		if _, err := l.Acks.AcknowledgeAll(ctx, open, ack); err != nil {
			return err
		}
	}
	return nil
}

// note returns the note of an acknowledgement: "by link" or "by button", with the name that a person gave, if any. Only
// printable characters of the name are kept.
func note(t Target, name string) string {
	by := "by link"
	if t.Button {
		by = "by button"
	}
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, "")))
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "")
	}
	if name == "" {
		return by
	}
	return by + ", as " + name
}
