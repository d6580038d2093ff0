package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
)

// maxKnownTicks bounds the ids of tickIndex, which take about a hundred bytes each.
const maxKnownTicks = 100_000

// tickIndex remembers the ticks' events on the subjects that this node publishes them on, so that a tick need not read
// the messages of a subject again. It is safe for concurrent use.
type tickIndex struct {
	mu       sync.Mutex
	subjects map[string]*subjectTicks
	ids      int
}

// on returns the ticks on a subject.
func (x *tickIndex) on(subject string) *subjectTicks {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subjects[subject] == nil {
		if x.subjects == nil {
			x.subjects = make(map[string]*subjectTicks)
		}
		x.subjects[subject] = &subjectTicks{subject: subject}
	}
	return x.subjects[subject]
}

// count adds n ids. Beyond maxKnownTicks it forgets all subjects; the next tick on each reads its messages again.
func (x *tickIndex) count(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ids += n; x.ids > maxKnownTicks {
		x.subjects, x.ids = nil, 0
	}
}

// subjectTicks holds the ids of the ticks' events that a stream has on a subject, from a time on and up to a sequence.
type subjectTicks struct {
	subject string

	mu       sync.Mutex // held while a tick is published on the subject
	stream   string     // empty: nothing is known
	created  time.Time  // of the stream
	since    time.Time
	last     uint64 // last sequence on the subject
	isBehind bool   // the subject may have newer messages
	ids      map[string]bool
}

// add records an event that a stream has.
func (t *subjectTicks) add(id string, seq uint64) {
	t.ids[id] = true
	t.last = max(t.last, seq)
}

// covers reports whether the ticks are those of the current stream that takes in the subject, from a time on.
func (t *subjectTicks) covers(ctx context.Context, streams *Streams, since time.Time) (bool, error) {
	if t.stream == "" || since.Before(t.since) {
		return false, nil
	}
	info, err := streams.fetchInfo(ctx, t.stream)
	if errors.Is(err, events.ErrGone) {
		return false, nil
	}
	return err == nil && createdAt(info).Equal(t.created) && covers(t.subject, info.Config.Subjects), unanswered(err)
}

// read reads the messages on the subject that are not known yet.
func (t *subjectTicks) read(ctx context.Context, streams *Streams) error {
	m, err := streams.last(ctx, t.stream, t.subject)
	if err != nil {
		return unanswered(err)
	}
	if m.Seq > t.last && !m.Time.Before(t.since) {
		if err := streams.replay(ctx, t.stream, []string{t.subject}, t.start, m.Seq, t.addEvent); err != nil {
			return unanswered(fmt.Errorf("read the ticks of stream %s on %s: %w", t.stream, t.subject, err))
		}
	}
	t.last, t.isBehind = m.Seq, false
	return nil
}

// start sets the first message that is not known yet.
func (t *subjectTicks) start(cfg *jetstream.ConsumerConfig) {
	if t.last > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, t.last+1
		return
	}
	cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &t.since
}

// addEvent records the id of an event, if it has one.
func (t *subjectTicks) addEvent(e futurejobs.Event, _ error) bool {
	if e.ID != "" {
		t.add(e.ID, e.Seq)
	}
	return true
}
