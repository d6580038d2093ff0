package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/nicholas-fedor/shoutrrr"
	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

// shout is a channel of one of the services that shoutrrr knows.
type shout struct {
	kind   Kind
	format format
	router *router.ServiceRouter
}

var errUnreadable = errors.New("the URL cannot be read; write it in full, with secrets percent-encoded")

var errRedirect = errors.New("it redirects, and redirects are not followed; name the address that it leads to")

// newShout reads the URL of a service. Its error has nothing of the URL in it. All services send
// through the client; Matrix with a user would log in before it has it, and is refused.
func newShout(s Spec, client *http.Client) (*shout, error) {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return nil, errUnreadable
	case u.Scheme == "matrix" && u.User.Username() != "":
		return nil, errors.New("the URL of Matrix has a user, for whom shoutrrr logs in unbounded; write matrix://:<access token>@host/?rooms=…")
	}
	strict := *client // some services take any answer under 400 for success
	strict.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirect }
	r, err := shoutrrr.NewSenderWithOptions(nil, types.SenderOptions{HTTPClient: &strict, Timeout: sendTime}, s.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL is not one of %s: %s; docs/notify.md says where its forms are described", s.Kind, s.reason(err))
	}
	return &shout{s.Kind, formatOf(u), r}, nil
}

// Send implements Channel. The library bounds it by sendTime, and not by ctx.
func (s *shout) Send(_ context.Context, m Message) error {
	title, text, params := s.format(m.Title()), s.format(m.Text()), types.Params{}
	switch s.kind {
	case Slack, Email:
		params.SetTitle(title)
	case PagerDuty:
		text = title + "\n" + text
		params["dedup_key"], params["severity"], params["action"] = m.Thread(), string(m.Severity()), "trigger"
		if m.Over() {
			params["action"] = "resolve"
		}
	default: // not all of them have a title
		text = title + "\n" + text
	}
	return errors.Join(s.router.Send(text, &params)...)
}
