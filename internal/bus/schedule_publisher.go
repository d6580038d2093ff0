package bus

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/scheduler"
)

var _ scheduler.StoredEmitter = (*SchedulePublisher)(nil)

// SchedulePublisher publishes the events of stored schedules. It is safe for concurrent use.
type SchedulePublisher struct {
	conn    *Conn
	streams *Streams
	events  *EventPublisher
	ticks   *TickPublisher

	pace      pacer
	unbatched sync.Map // subjects of streams without batches, with the time of the next attempt
}

// clockLag is the largest lag of the broker's clock behind the database's for which a search finds an event of a stored
// schedule. The duplicate window of the stream covers events of the last minutes in any case.
const clockLag = time.Minute

// PublishTicks implements scheduler.StoredEmitter. A subject that no stream takes in is captured.
//
//  1. Events that may be stored are searched for in the stream's messages on the subject since their ticks.
//  2. The others are published with their ids, so that the stream refuses a repeat within its duplicate window: as one batch,
//     or each on its own if the stream takes no batches or refuses one of them.
func (p *SchedulePublisher) PublishTicks(ctx context.Context, all []futurejobs.Emission) (stored []bool, err error) {
	stored = make([]bool, len(all))
	if err := checkLiteral(all[0].Subject); err != nil {
		return stored, err
	}
	if err := p.findStored(ctx, all, stored); err != nil {
		return stored, err
	}
	err = p.publishAll(ctx, all, stored)
	if noStream(err) {
		if _, err := p.ticks.streamFor(ctx, all[0].Subject); err != nil {
			return stored, err
		}
		err = p.publishAll(ctx, all, stored)
	}
	if err != nil {
		err = p.events.unpublished(all[0].Subject, len(all[0].Data), noAnswerError(ctx, err))
	}
	return stored, err
}

// findStored marks the events that the stream of their subject has.
func (p *SchedulePublisher) findStored(ctx context.Context, all []futurejobs.Emission, stored []bool) error {
	subject := all[0].Subject
	var since time.Time
	for _, e := range all {
		if e.MayBeStored && (since.IsZero() || e.At.Before(since)) {
			since = e.At
		}
	}
	if since.IsZero() {
		return nil
	}
	info, err := p.ticks.streamFor(ctx, subject)
	if err != nil {
		return err
	}
	ticks := subjectTicks{subject: subject, stream: info.Config.Name, since: since.Add(-clockLag), ids: make(map[string]bool)}
	if err := ticks.read(ctx, p.streams); err != nil {
		return err
	}
	for i, e := range all {
		stored[i] = ticks.ids[e.ID]
	}
	return nil
}

// publishAll publishes the events that are not stored, as many at once as the broker answers in time. The error is the first
// one.
func (p *SchedulePublisher) publishAll(ctx context.Context, all []futurejobs.Emission, stored []bool) (failed error) {
	ctx, done := p.conn.withConnection(ctx, all[0].Subject)
	defer done()
	for from := 0; from < len(all); {
		var wave []outgoingTick
		size := 0
		for limit := p.pace.window(); from < len(all) && len(wave) < limit; from++ {
			if stored[from] {
				continue
			}
			msg := encodeTick(all[from], p.conn.opts.source())
			if size += len(msg.Data); len(wave) > 0 && size > batchBytes {
				break
			}
			wave = append(wave, outgoingTick{msg, &stored[from]})
		}
		err := p.send(ctx, wave)
		p.pace.record(!noAnswer(err), len(wave))
		failed = cmp.Or(failed, err)
		if noAnswer(err) || noStream(err) {
			break
		}
	}
	return failed
}

// outgoingTick is the event of a tick on its way.
type outgoingTick struct {
	msg    *nats.Msg
	stored *bool
}

// send publishes events as one batch, if their stream takes batches, otherwise each on its own.
func (p *SchedulePublisher) send(ctx context.Context, wave []outgoingTick) error {
	if len(wave) < 2 || p.takesNoBatches(wave[0].msg.Subject) {
		return p.sendEach(ctx, wave)
	}
	msgs := make([]*nats.Msg, len(wave))
	for i, o := range wave {
		msgs[i] = o.msg
	}
	err := publishBatch(ctx, p.conn, msgs)
	switch {
	case err == nil:
		for _, o := range wave {
			*o.stored = true
		}
		return nil
	case isCode(err, codeNoBatches):
		p.unbatched.Store(wave[0].msg.Subject, time.Now().Add(unbatchedFor))
	case !refused(err):
		return err
	}
	return p.sendEach(ctx, wave)
}

// codeNoBatches is the code of a stream that does not take batches.
const codeNoBatches = 10174

// unbatchedFor is how long a subject is taken for one whose stream takes no batches.
const unbatchedFor = time.Minute

func (p *SchedulePublisher) takesNoBatches(subject string) bool {
	until, ok := p.unbatched.Load(subject)
	return ok && time.Now().Before(until.(time.Time))
}

// sendEach publishes events in waves, and waits for the answer to each of them. The error is the first one. After the end of ctx
// none is published: their schedules may have changed.
func (p *SchedulePublisher) sendEach(ctx context.Context, all []outgoingTick) (failed error) {
	for wave := range slices.Chunk(all, waveMost) {
		if err := ctx.Err(); err != nil {
			return cmp.Or(failed, err)
		}
		begun := time.Now()
		futures := make([]jetstream.PubAckFuture, 0, len(wave))
		for _, o := range wave {
			f, err := p.conn.js.PublishMsgAsync(o.msg, jetstream.WithStallWait(answerTimeout))
			if err != nil {
				failed = cmp.Or(failed, err)
				break
			}
			futures = append(futures, f)
		}
		for i, f := range futures {
			_, err := p.conn.answer(ctx, f, begun) // an event that the stream has already is no error
			*wave[i].stored = err == nil
			failed = cmp.Or(failed, err)
		}
		if noAnswer(failed) || noStream(failed) {
			break
		}
	}
	return failed
}
