package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/nicholas-fedor/shoutrrr"
	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

// shoutrrrChannel is a channel to a service supported by shoutrrr.
type shoutrrrChannel struct {
	kind   Kind
	format format
	limit  int // maximum size of a message, in bytes
	router *router.ServiceRouter
}

// textSize is the maximum size of a message, in bytes. Telegram, Google Chat, Lark, WeCom and ntfy accept 4096 bytes;
// a longer message would be retried until it is given up, and one event with long texts would block alerts about
// others.
const textSize = 4000

// textSizes are the limits of services with smaller messages.
var textSizes = map[string]int{"pushover": 1000, "twilio": 1500}

// sizeOf returns the maximum size of a message for the service of a shoutrrr URL, in bytes.
func sizeOf(u *url.URL) int {
	if limit, less := textSizes[strings.ToLower(u.Scheme)]; less {
		return limit
	}
	return textSize
}

var errUnreadable = errors.New("the URL cannot be read; write it in full, with secrets percent-encoded")

var errRedirect = errors.New("it redirects, and redirects are not followed; name the address that it leads to")

// newShout creates a channel from a service URL, for mail one of our own. Its error contains nothing of the URL. All services send through the
// client; Matrix with a user is rejected, because it would log in before it has the client.
func newShout(s Spec, client *http.Client) (Channel, error) {
	u, err := url.Parse(s.URL)
	unusable := func(err error) error {
		return fmt.Errorf("the URL is not one of %s: %s; docs/reference/notifications.md says where its forms are described", s.Kind, s.reason(err))
	}
	switch {
	case err != nil:
		return nil, errUnreadable
	case u.Scheme == schemes[Email]:
		e, err := newEmail(u)
		if err != nil {
			return nil, unusable(err)
		}
		return e, nil
	case u.Scheme == "matrix" && u.User.Username() != "":
		return nil, errors.New("the URL of Matrix has a user, for whom shoutrrr logs in unbounded; write matrix://:<access token>@host/?rooms=…")
	}
	strict := *client // some services treat any status under 400 as success
	strict.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirect }
	r, err := shoutrrr.NewSenderWithOptions(nil, types.SenderOptions{HTTPClient: &strict, Timeout: sendTime}, s.URL)
	if err != nil {
		return nil, unusable(err)
	}
	return &shoutrrrChannel{s.Kind, formatOf(u), sizeOf(u), r}, nil
}

// fitting returns the title and the text of a message for a service, with as many lines about keys as fit into limit bytes.
func fitting(m Message, f format, limit int) (title, text string) {
	title = f(m.Title())
	for shown := shownKeys; shown >= 0; shown-- {
		if text = f(m.textOf(shown)); len(title)+1+len(text) <= limit {
			break
		}
	}
	return title, text
}

// Send implements Channel. The library applies the timeout sendTime and ignores ctx.
func (s *shoutrrrChannel) Send(_ context.Context, m Message) error {
	title, text := fitting(m, s.format, s.limit)
	params := types.Params{}
	switch s.kind {
	case Slack:
		params.SetTitle(title)
	case PagerDuty:
		text = title + "\n" + text
		params["dedup_key"], params["severity"], params["action"] = m.Thread(), string(m.Severity()), "trigger"
		if m.Over() {
			params["action"] = "resolve"
		}
	default: // some of them have no title
		text = title + "\n" + text
	}
	return errors.Join(s.router.Send(text, &params)...)
}
