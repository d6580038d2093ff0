package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/nicholas-fedor/shoutrrr"
	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

// shout is a channel of one of the services that shoutrrr knows.
type shout struct {
	kind   Kind
	router *router.ServiceRouter
}

// newShout reads the URL of a service. Its error has nothing of the URL in it.
func newShout(s Spec, client *http.Client) (*shout, error) {
	r, err := shoutrrr.NewSenderWithOptions(nil, types.SenderOptions{HTTPClient: client, Timeout: sendTime}, s.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL is not one of %s: %s; docs/notify.md says where its forms are described", s.Kind, s.reason(err))
	}
	return &shout{s.Kind, r}, nil
}

// Send implements Channel. The library bounds it by sendTime, and not by ctx.
func (s *shout) Send(_ context.Context, m Message) error {
	text, params := m.Text(), types.Params{}
	switch s.kind {
	case Slack, Email:
		params.SetTitle(m.Title())
	case PagerDuty:
		text = m.Title() + "\n" + text
		params["dedup_key"], params["severity"], params["action"] = m.Thread(), string(m.Severity()), "trigger"
		if m.Over() {
			params["action"] = "resolve"
		}
	default: // not all of them have a title
		text = m.Title() + "\n" + text
	}
	return errors.Join(s.router.Send(text, &params)...)
}
