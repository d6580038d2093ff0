package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// reservedReply is a prefix of reply subjects that a server refuses of each client, whatever its permissions. It does so after
// the check of the permission to publish, and before it passes the message on. A message with such a reply therefore shows
// the permission, and reaches no stream, no JetStream API and no subscriber.
const reservedReply = "_R_."

// errNotRefused means that a server passes on messages with a reserved reply subject. No more are sent to it.
var errNotRefused = errors.New("the server does not refuse messages with a reserved reply subject, so that permissions cannot be tested without a message")

// probe finds out the permissions of a connection's user.
type probe struct {
	nc       *nats.Conn
	id       string      // part of the subjects of this probe
	refusals chan string // the server's messages, in its order
	sent     int
	safe     bool // the server refuses reserved replies
}

// refusalsMost is the room for refusals: two for each permission, and those of other requests.
const refusalsMost = 1 << 16

func newProbe(nc *nats.Conn) *probe {
	p := &probe{nc: nc, id: "doctor-" + strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix), refusals: make(chan string, refusalsMost)}
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case p.refusals <- err.Error():
		default: // a test that waits for it fails
		}
	})
	return p
}

// close ends the probe; the connection stays.
func (p *probe) close() {
	p.nc.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
}

// subject returns a subject that a line permits and that no program uses.
func (p *probe) subject(line string) string {
	tokens := strings.Split(line, ".")
	for n, token := range tokens {
		if token == "*" || token == ">" {
			tokens[n] = p.id
		}
	}
	return strings.Join(tokens, ".")
}

// has tests one permission to publish.
func (p *probe) has(line string) (bool, error) {
	missing, err := p.missing([]permission{{list: publish, line: line}})
	return err == nil && len(missing) == 0, err
}

// missing returns the permissions that the user lacks.
func (p *probe) missing(needed []permission) (lacks []permission, err error) {
	if !p.safe { // the first message has a subject of this probe alone, in case that the server passes it on
		if _, err := p.refused(); err != nil {
			return nil, err
		}
		p.safe = true
	}
	replies := make([]string, len(needed))
	for n, need := range needed {
		if need.list == publish {
			replies[n], err = p.send(p.subject(need.line))
		} else {
			err = p.subscribe(p.subject(need.line))
		}
		if err != nil {
			return nil, err
		}
	}
	texts, err := p.refused()
	if err != nil {
		return nil, err
	}
	for n, need := range needed {
		denied := slices.ContainsFunc(texts, func(text string) bool { return refuses(text, need.list, p.subject(need.line)) })
		granted := need.list == subscribe || slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, `"`+replies[n]+`"`) })
		switch {
		case denied:
			lacks = append(lacks, need)
		case !granted:
			return nil, errNotRefused
		}
	}
	return lacks, nil
}

// subscribe subscribes for a moment. The server answers also if the subscription is over by then.
func (p *probe) subscribe(subject string) error {
	s, err := p.nc.SubscribeSync(subject)
	if err != nil {
		return err
	}
	return s.Unsubscribe()
}

// send publishes an empty message that the server refuses, with the returned reply subject unless the permission is missing.
func (p *probe) send(subject string) (reply string, err error) {
	p.sent++
	reply = fmt.Sprintf("%s%s.%d", reservedReply, p.id, p.sent)
	return reply, p.nc.PublishRequest(subject, reply, nil)
}

// refused returns what the server refused since the last call. It sends a message that the server refuses in any case: the
// server answers in order, so that this refusal is the last one.
func (p *probe) refused() (texts []string, err error) {
	last := fmt.Sprintf("deadman.%s.%d", p.id, p.sent)
	reply, err := p.send(last)
	if err := errors.Join(err, p.nc.FlushTimeout(checkTimeout)); err != nil {
		return nil, err
	}
	for late := time.After(checkTimeout); ; {
		select {
		case text := <-p.refusals:
			if refuses(text, publish, last) || strings.Contains(text, `"`+reply+`"`) {
				return texts, nil
			}
			texts = append(texts, text)
		case <-late:
			return nil, errNotRefused
		}
	}
}

// refuses reports whether a message of the server names a permission as missing.
func refuses(text, list, subject string) bool {
	verb := "violation for publish to "
	if list == subscribe {
		verb = "violation for subscription to "
	}
	return strings.Contains(strings.ToLower(text), verb) && strings.Contains(text, `"`+subject+`"`)
}
