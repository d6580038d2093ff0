package bus

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
)

// AlertType is the CloudEvents type of an alert.
const AlertType = "dev.deadman.alert.v1"

// Sizes for shortening an alert that the broker would reject.
const (
	headerRoom = 4 << 10 // reserved for headers
	batchRoom  = 128     // additional headers of a batch
	shortText  = 512     // in bytes
)

// errUnfit means that an alert can't be encoded as a message.
var errUnfit = errors.New("cannot be encoded")

// alertEncoder encodes alerts as messages within the broker's size limit.
type alertEncoder struct {
	conn   *Conn
	stream *StreamOfAlerts
}

// encode encodes an alert as a CloudEvent in binary mode. If the broker would reject it for its size, the event and
// the state are left out, and if that is not enough, the text is shortened. The database keeps the whole alert.
func (e alertEncoder) encode(a alerts.Alert) (*nats.Msg, error) {
	if e.conn.opts.PublicURL != "" {
		a.URL = e.conn.opts.PublicURL + "/alerts/" + a.ID.String()
	}
	msg, err := e.wrap(a)
	if err != nil || e.fits(msg) {
		return msg, err
	}
	a.Event, a.State = nil, nil
	if msg, err = e.wrap(a); err != nil || e.fits(msg) {
		return msg, err
	}
	size := len(msg.Data)
	a.Text = prefix(a.Text, shortText) + " … (shortened: the broker takes no message of this size)"
	a.Labels, a.SkippedSteps, a.Closes = nil, nil, nil
	alerts.TracedLog(e.conn.log, a.Trace).Warn("an alert is too large for the broker and is published shortened; raise max_payload of the broker, or max_msg_size of the stream",
		"alert", a.ID, "rule", a.Rule, "key", a.Key, "bytes", size, "most", e.largest())
	return e.wrap(a)
}

// fits reports whether a message is within the broker's size limit.
func (e alertEncoder) fits(m *nats.Msg) bool {
	limit := e.largest()
	return int64(len(m.Data)+headerRoom) <= limit || int64(m.Size()-len(m.Subject)+batchRoom) <= limit
}

// largest returns the largest size of a message's headers and body, in bytes.
func (e alertEncoder) largest() int64 {
	most := e.conn.nc.MaxPayload()
	if limit := e.stream.msgLimit.Load(); limit > 0 {
		most = min(most, limit)
	}
	return most
}

// wrap encodes an alert as it is.
func (e alertEncoder) wrap(a alerts.Alert) (*nats.Msg, error) {
	data, err := a.JSON()
	if err != nil {
		return nil, fmt.Errorf("%w: alert %s: %w", errUnfit, a.ID, err)
	}
	msg := nats.NewMsg(e.conn.opts.Namespace.Subject(a.Subject()))
	msg.Data = data
	msg.Header = nats.Header{
		"ce-specversion":                    {"1.0"},
		"ce-id":                             {a.ID.String()},
		"ce-type":                           {AlertType},
		"ce-source":                         {e.conn.opts.source()},
		"ce-subject":                        {alerts.HeaderText(a.Rule + "/" + a.Key)},
		"ce-time":                           {a.DecidedAt.UTC().Format(time.RFC3339Nano)},
		"content-type":                      {"application/json"},
		jetstream.MsgIDHeader:               {a.ID.String()},
		jetstream.ExpectedStreamHeader:      {e.stream.Name()},
		jetstream.ExpectedLastSubjSeqHeader: {"0"},
	}
	if a.Trace != "" {
		msg.Header["traceparent"] = []string{a.Trace}
	}
	dropSeqCheck(msg)
	return msg, nil
}

// prefix returns at most limit bytes from the beginning of a text, in whole characters.
func prefix(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
