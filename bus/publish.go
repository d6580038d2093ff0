package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
)

var _ alerts.Publisher = (*Bus)(nil)

// AlertType is the CloudEvents type of an alert.
const AlertType = "dev.deadman.alert.v1"

// defaultSource is what alerts come from when no public URL is set.
const defaultSource = "deadman"

// Publish implements alerts.Publisher. Alerts go out one behind the other without waiting,
// and each is refused by the stream for as long as the stream has it: its subject is its
// own, and nothing may be there yet.
func (b *Bus) Publish(ctx context.Context, batch []alerts.Alert) ([]alerts.Alert, error) {
	sent := make([]alerts.Alert, 0, len(batch))
	var failed error
	for len(batch) > 0 {
		n := min(len(batch), publishWindow)
		acked, err := b.publishSome(ctx, batch[:n])
		sent, batch = append(sent, acked...), batch[n:]
		if err != nil {
			failed = err
			break
		}
	}
	return sent, failed
}

// publishSome publishes what fits into the window, and waits for every answer.
func (b *Bus) publishSome(ctx context.Context, batch []alerts.Alert) (sent []alerts.Alert, failed error) {
	futures := make([]jetstream.PubAckFuture, len(batch)) // nil: not sent
	for i, a := range batch {
		var err error
		if futures[i], err = b.send(a); err != nil {
			failed = err
			if !errors.Is(err, nats.ErrMaxPayload) { // that one holds up no other
				break
			}
		}
	}
	for i, f := range futures {
		if f == nil {
			continue
		}
		if err := b.acked(ctx, f); err == nil {
			sent = append(sent, batch[i])
		} else if failed == nil {
			failed = err
		}
	}
	return sent, failed
}

func (b *Bus) send(a alerts.Alert) (jetstream.PubAckFuture, error) {
	msg, err := b.alertMsg(a)
	if err != nil {
		return nil, err
	}
	f, err := b.js.PublishMsgAsync(msg, jetstream.WithMsgID(a.ID.String()),
		jetstream.WithExpectLastSequencePerSubject(0), jetstream.WithExpectStream(AlertsStream),
		jetstream.WithStallWait(answerTimeout))
	if err != nil {
		return nil, publishing(err)
	}
	return f, nil
}

// acked waits for the stream's answer. An alert that the stream has already is no error.
func (b *Bus) acked(ctx context.Context, f jetstream.PubAckFuture) error {
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		if isCode(err, jetstream.JSErrCodeStreamWrongLastSequence) {
			err = b.there(ctx, f.Msg().Subject)
		}
		if err != nil {
			return publishing(err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("publish alert: %w", ctx.Err())
	}
}

// there makes sure of an alert that the stream refused as a repeat.
func (b *Bus) there(ctx context.Context, subject string) error {
	m, err := b.next(ctx, AlertsStream, subject, 1)
	if err == nil && m.Seq == 0 {
		err = errors.New("refused as a repeat of an alert that is not in the stream")
	}
	return err
}

// publishing says what a person can do about alerts that do not get out.
func publishing(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("publish alert: %w: stream %s is gone or has no leader; a restart creates it", err, AlertsStream)
	case isCode(err, codeStoreFailed):
		return fmt.Errorf("publish alert: stream %s takes nothing in: %w; if it is full, raise its max_bytes: alerts wait in the database meanwhile", AlertsStream, err)
	}
	return fmt.Errorf("publish alert: %w", offline(err))
}

// publishRoom is what an alert leaves of the broker's largest payload for headers.
const publishRoom = 4 << 10

// alertMsg is an alert as a CloudEvent in binary mode. One that the broker would not let
// through goes without what its event carried, which stays in the database.
func (b *Bus) alertMsg(a alerts.Alert) (*nats.Msg, error) {
	source := defaultSource
	if b.opts.PublicURL != "" {
		source = b.opts.PublicURL
		a.URL = b.opts.PublicURL + "/alerts/" + a.ID.String()
	}
	data, err := json.Marshal(a)
	if err == nil && int64(len(data)+publishRoom) > b.nc.MaxPayload() {
		a.Event, a.State = nil, nil
		data, err = json.Marshal(a)
	}
	if err != nil {
		return nil, fmt.Errorf("publish alert %s: %w", a.ID, err)
	}
	msg := nats.NewMsg(a.Subject())
	msg.Data = data
	msg.Header = nats.Header{
		"ce-specversion": {"1.0"},
		"ce-id":          {a.ID.String()},
		"ce-type":        {AlertType},
		"ce-source":      {source},
		"ce-subject":     {headerText(a.Rule + "/" + a.Key)},
		"ce-time":        {a.DecidedAt.UTC().Format(time.RFC3339Nano)},
		"content-type":   {"application/json"},
	}
	return msg, nil
}

// headerText is text as a CloudEvent in binary mode has it in a header: what is not
// printable ASCII, and space, quote and percent, are percent-encoded.
func headerText(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && c != '"' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
