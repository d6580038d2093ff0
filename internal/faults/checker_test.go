package faults

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Checker reads a database and a broker independently: its SQL and its stream reader share no code with the program
// under test.
type Checker struct {
	DB   *sql.DB
	NATS *nats.Conn
	// Lossy means that the database lost commits in a failover, so the stream may have alerts missing in the database.
	Lossy bool
	// FailedOver is the time of a failover with lost commits; zero: none.
	FailedOver time.Time
	// CameBack means that the stream of alerts was lost, and has republished alerts behind newer ones.
	CameBack bool
}

// own is the rule name of alerts about deadman itself.
const own = "deadman"

// Counts is the state of the tables in one snapshot.
type Counts struct {
	Created, Pending, Archived, Pruned int
	Alerts, Unpublished, DeadLetters   int
}

// Count reads all counts in one snapshot.
func (c *Checker) Count(ctx context.Context) (n Counts, err error) {
	err = c.DB.QueryRowContext(ctx, `SELECT
		(SELECT coalesce(sum(created), 0) FROM event_cursor),
		(SELECT count(*) FROM future_job),
		(SELECT count(*) FROM history),
		(SELECT coalesce(sum(rows), 0) FROM pruned WHERE name = 'history'),
		(SELECT count(*) FROM alert),
		(SELECT coalesce(sum(length(ids)), 0) / 16 FROM alert_outbox),
		(SELECT count(*) FROM dead_letter)`).Scan(
		&n.Created, &n.Pending, &n.Archived, &n.Pruned, &n.Alerts, &n.Unpublished, &n.DeadLetters)
	return n, err
}

// PublishedAlert is one alert as read by a consumer of the stream.
type PublishedAlert struct {
	Seq          uint64
	ID           string   `json:"id"`
	Rule         string   `json:"rule"`
	Key          string   `json:"key"`
	Status       string   `json:"status"`
	Step         string   `json:"step"`
	StepIndex    int      `json:"step_index"`
	SkippedSteps []string `json:"skipped_steps"`
	CheckCount   int      `json:"check_count"`
	Since        string   `json:"since"`
	Slot         time.Time
	DecidedAt    time.Time `json:"decided_at"`
	Source       string
	Count        int
	Closes       []string
	Text         string
	MsgID        string
}

// CheckSequence returns the steps of the alerts of each key, in order: "primary escalated", or "primary+escalated" if
// both were due at one check and only the higher one was raised.
func CheckSequence(published []PublishedAlert) map[string]string {
	steps := map[string]string{}
	for _, s := range published {
		if s.Status != "firing" {
			continue
		}
		if steps[s.Key] != "" {
			steps[s.Key] += " "
		}
		steps[s.Key] += strings.Join(append(s.SkippedSteps, s.Step), "+")
	}
	return steps
}

// Stream reads all alerts of the stream from its beginning.
func (c *Checker) Stream(ctx context.Context) (all []PublishedAlert, err error) {
	err = c.read(ctx, "DEADMAN_ALERTS", withBodies, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) error {
		published := PublishedAlert{Seq: meta.Sequence.Stream, MsgID: msg.Headers().Get("Nats-Msg-Id")}
		if err := json.Unmarshal(msg.Data(), &published); err != nil {
			return fmt.Errorf("alert %d: %w", published.Seq, err)
		}
		if want := "deadman.alerts." + published.Rule + "."; !strings.HasPrefix(msg.Subject(), want) || !strings.HasSuffix(msg.Subject(), "."+published.ID) {
			return fmt.Errorf("alert %s came on subject %s", published.ID, msg.Subject())
		}
		all = append(all, published)
		return nil
	})
	return all, err
}

// The parts to read of the messages of a stream.
const (
	withBodies  = false
	headersOnly = true
)

// read calls each with the messages of a stream, in order.
func (c *Checker) read(ctx context.Context, name string, headersOnly bool, each func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	js, err := jetstream.New(c.NATS)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return err
	}
	reader, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: headersOnly, MemoryStorage: true, Replicas: 1, InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	return errors.Join(
		consume(reader, info.State.Msgs, each),
		stream.DeleteConsumer(ctx, reader.CachedInfo().Name))
}

// consume calls each with the next messages of a consumer.
func consume(reader jetstream.Consumer, limit uint64, each func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	for n := uint64(0); n < limit; {
		batch, err := reader.Fetch(int(min(limit-n, 1000)), jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			return err
		}
		before := n
		for msg := range batch.Messages() {
			n++
			meta, err := msg.Metadata()
			if err == nil && meta.Sequence.Consumer != n {
				err = fmt.Errorf("message %d of the stream came as number %d, and not %d", meta.Sequence.Stream, meta.Sequence.Consumer, n)
			}
			if err == nil {
				err = each(msg, meta)
			}
			if err != nil {
				return err
			}
		}
		if n == before {
			return errors.Join(fmt.Errorf("only %d of %d messages come", n, limit), batch.Error())
		}
	}
	return nil
}

// CheckPromises checks P2, P5, P7 and P12 on a system at rest, and returns every breach.
func (c *Checker) CheckPromises(ctx context.Context) error {
	n, err := c.Count(ctx)
	if err != nil {
		return err
	}
	published, err := c.Stream(ctx)
	if err != nil {
		return err
	}
	var broken []error
	breach := func(format string, args ...any) { broken = append(broken, fmt.Errorf(format, args...)) }

	if n.Created != n.Pending+n.Archived+n.Pruned {
		breach("P2: created %d, but pending %d + archived %d + pruned %d", n.Created, n.Pending, n.Archived, n.Pruned)
	}
	if n.Unpublished != 0 {
		breach("P12: %d alerts are not published", n.Unpublished)
	}
	if n.Alerts != len(published) && !(c.Lossy && n.Alerts < len(published)) {
		breach("P7: %d alerts were decided, a consumer sees %d", n.Alerts, len(published))
	}
	if c.CameBack {
		published = byDecision(published)
	}
	ids := map[string]bool{}
	decisions := map[string]PublishedAlert{}
	last := map[string]PublishedAlert{}
	for _, s := range published {
		if ids[s.ID] {
			breach("P7: alert %s is in the stream twice", s.ID)
		}
		ids[s.ID] = true
		if s.MsgID != s.ID {
			breach("alert %s has Nats-Msg-Id %q", s.ID, s.MsgID)
		}
		job := s.Rule + "/" + s.Key + "/" + s.Since
		decision := fmt.Sprint(job, "/", s.CheckCount, "/", s.Status)
		if c.Lossy { // the first check may be lost, and another step may be due at the next one
			decision += "/" + s.Step
		}
		if other, twice := decisions[decision]; twice {
			breach("P5: %s was decided twice: %s and %s", decision, other.ID, s.ID)
		}
		decisions[decision] = s
		if before, ok := last[job]; ok && s.Status == "firing" && s.StepIndex <= before.StepIndex {
			breach("%s: step %d was raised after step %d", job, s.StepIndex, before.StepIndex)
		}
		if s.DecidedAt.Before(s.Slot) && s.Rule != own { // alerts of deadman itself may span a step of the clock
			breach("P3: %s was decided at %s, before its slot %s", job, s.DecidedAt, s.Slot)
		}
		if s.Status == "firing" {
			last[job] = s
		}
	}
	twice, err := c.duplicateJobs(ctx)
	return errors.Join(append(append(broken, twice...), err)...)
}

// duplicateJobs returns the jobs that exist more than once.
func (c *Checker) duplicateJobs(ctx context.Context) (broken []error, err error) {
	rows, err := c.DB.QueryContext(ctx, `SELECT shard, id, count(*) FROM (
		SELECT shard, id FROM future_job UNION ALL SELECT shard, id FROM history) j
		GROUP BY shard, id HAVING count(*) > 1`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var shard, id, times int64
		if err := rows.Scan(&shard, &id, &times); err != nil {
			return nil, err
		}
		broken = append(broken, fmt.Errorf("P5: job %d of shard %d is there %d times", id, shard, times))
	}
	return broken, rows.Err()
}
