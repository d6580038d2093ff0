package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/events"
	"deadman/rules"
)

// Routes implements rules.Binder. It lists the streams once for all subjects.
func (b *Bus) Routes(ctx context.Context, subjects []string) ([]rules.SubjectRoute, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	streams, err := b.streams(ctx)
	if err != nil {
		return nil, err
	}
	roads := make([]rules.SubjectRoute, len(subjects))
	for i, subject := range subjects {
		found, err := streamsCarrying(subject, streams)
		roads[i] = rules.SubjectRoute{Subject: subject, Err: err}
		for _, s := range found {
			roads[i].Streams = append(roads[i].Streams, s.Config.Name)
			if risk := riskOf(s.Config); risk != "" {
				roads[i].Risks = append(roads[i].Risks, fmt.Sprintf("stream %s %s", s.Config.Name, risk))
			}
		}
		roads[i].Capture = err == nil && (len(found) == 0 || matchesMore(subject, found))
		if !roads[i].Capture {
			roads[i].Takes = capturedPart(subject, found)
		}
	}
	return roads, nil
}

// riskOf describes the settings of a stream that may delete single events before they are read. It is empty without
// such settings.
func riskOf(c jetstream.StreamConfig) string {
	var risks []string
	if c.MaxMsgsPerSubject > 0 {
		risks = append(risks, fmt.Sprintf("keeps only the newest %d messages of a subject (max_msgs_per_subject)", c.MaxMsgsPerSubject))
	}
	if c.AllowRollup {
		risks = append(risks, "lets a message replace those before it (allow_rollup_hdrs)")
	}
	if c.AllowMsgTTL {
		risks = append(risks, "lets messages have an age of their own (allow_msg_ttl)")
	}
	if len(risks) == 0 {
		return ""
	}
	return strings.Join(risks, " and ")
}

// Pending implements rules.Binder. It asks the stream's leader, because only the leader has all messages.
func (b *Bus) Pending(ctx context.Context, stream, subject string, after uint64) (rules.StreamBacklog, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	info, err := b.leaderInfo(ctx, stream)
	if errors.Is(err, events.ErrGone) {
		return rules.StreamBacklog{Gone: true}, nil
	}
	if err != nil {
		return rules.StreamBacklog{}, err
	}
	rest := rules.StreamBacklog{CreatedAt: createdAt(info)}
	next, err := b.next(ctx, stream, subject, after+1)
	if err != nil {
		return rest, err
	}
	rest.Unread = next.Seq > 0
	last, err := b.last(ctx, stream, subject)
	if err != nil || last.Seq == 0 {
		return rest, err
	}
	rest.LastAt = last.Time.UTC().Truncate(time.Microsecond)
	rest.CopyOf, err = last.copyOf()
	return rest, err
}

// copyOf returns the origin of a copied message.
func (m storedMessage) copyOf() (of rules.CopiedFrom, err error) {
	if len(m.Header) == 0 {
		return of, nil
	}
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err == nil {
		of.Stream, of.Through, _ = rules.CopyOf(header)
	}
	return of, err
}

// ReadFrom implements rules.Binder. From is as close to the first event as possible, to read little again.
func (b *Bus) ReadFrom(ctx context.Context, subject, stream string, after time.Time) (rules.StreamBinding, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	info, err := b.leaderInfo(ctx, stream)
	if err != nil {
		return rules.StreamBinding{}, err
	}
	read := rules.StreamBinding{Subject: subject, Stream: stream, From: info.State.LastSeq, At: after, CreatedAt: createdAt(info)}
	earlier, err := b.before(ctx, info, after)
	if err != nil {
		return read, err
	}
	first, err := b.next(ctx, stream, subject, earlier+1)
	if err == nil && first.Seq > 0 {
		read.From = min(read.From, first.Seq-1)
	}
	return read, err
}
