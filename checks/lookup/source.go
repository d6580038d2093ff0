package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"deadman/checks"
)

// Options configure a source.
type Options struct {
	Name   string
	Kind   string // displayed kind, such as "postgres"
	Client Client // closed with the source
	Limits Limits
	// Most is the largest number of keys in one query; 0: BatchMost. It is smaller for a client that queries each key
	// separately, and so answers fewer keys within the timeout.
	Most int
	Now  func() time.Time
	// Observer receives metrics; nil: none.
	Observer Observer
	Log      *slog.Logger // of panics of the client
}

// Observer receives the metrics of sources. It is called from many goroutines at once.
type Observer interface {
	// CountKeys counts n queried keys with the same outcome.
	CountKeys(source string, outcome Outcome, n int)
	// RoundTrip receives the duration of one batch.
	RoundTrip(source string, took time.Duration)
}

// Outcome is the result of a lookup for a key.
type Outcome string

// The outcomes.
const (
	Found  Outcome = "found"
	Absent Outcome = "absent"
	Failed Outcome = "error"  // of this key, or of the question
	Outage Outcome = "outage" // of the source
)

// Source queries a Client within bounds, so that a client that hangs, is slow or fails delays only its own callers.
// It is safe for concurrent use.
//
//	Enter ─▶ queue ─▶ place ─▶ rate ─▶ circuit breaker ─▶ Client, until its deadline
//
// A call that ignores its deadline is abandoned, and keeps its place until it returns: at most Limits.Concurrency
// calls ever run.
type Source struct {
	Options
	line     chan struct{} // callers queued or running
	querying *semaphore
	probing  *semaphore // of Verify and Reach, so that they do not queue behind batches
	rate     *rate.Limiter
	circuit  *gobreaker.TwoStepCircuitBreaker[struct{}]
	stats    stats
}

// NewSource returns a source. It does not connect yet.
func NewSource(o Options) *Source {
	o.Limits, o.Most = o.Limits.WithDefaults(), cmp.Or(o.Most, BatchMost)
	if o.Observer == nil {
		o.Observer = nopObserver{}
	}
	s := &Source{
		Options:  o,
		line:     make(chan struct{}, o.Limits.Concurrency+o.Limits.Waiting),
		querying: newSemaphore(o.Limits.Concurrency),
		probing:  newSemaphore(verifyConcurrency),
		rate:     rate.NewLimiter(rate.Inf, 0),
		circuit:  newCircuit(o.Limits),
	}
	if o.Limits.Rate > 0 {
		s.rate = rate.NewLimiter(rate.Limit(o.Limits.Rate), s.piece())
	}
	return s
}

type nopObserver struct{}

func (nopObserver) CountKeys(string, Outcome, int)  {}
func (nopObserver) RoundTrip(string, time.Duration) {}

// Enter reserves a place in the queue; false: the queue is full. Query releases it.
func (s *Source) Enter() bool {
	select {
	case s.line <- struct{}{}:
		return true
	default:
		return false
	}
}

// Retire closes the connections of a source that was replaced, once its callers are done or within has passed. From then
// on its queue is full.
func (s *Source) Retire(within time.Duration) {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for range cap(s.line) {
		select {
		case s.line <- struct{}{}:
			continue
		case <-timeout.C:
		}
		break
	}
	s.Client.Close()
}

// piece returns the number of keys in one query.
func (s *Source) piece() int {
	if s.Limits.Rate == 0 {
		return s.Most
	}
	return min(s.Most, max(1, int(s.Limits.Rate)))
}

// Query queries up to BatchMost keys and releases the caller's place in the queue. It splits the keys into pieces
// within Most and the rate; each piece has up to timeout from the start of the client's call. Finding i belongs to
// queries[i]; its error is a *checks.Outage if the source as a whole can't be queried.
func (s *Source) Query(ctx context.Context, timeout time.Duration, q Question, queries []KeyQuery) []checks.Finding {
	defer func() { <-s.line }()
	found := make([]checks.Finding, 0, len(queries))
	for piece := range slices.Chunk(queries, s.piece()) {
		answers, err := s.queryPiece(ctx, timeout, q, piece)
		if err != nil {
			found = append(found, slices.Repeat([]checks.Finding{{Err: err}}, len(queries)-len(found))...)
			break
		}
		found = append(found, answers...)
	}
	s.count(found)
	return found
}

// queryPiece queries one piece once a place is free. It fails at once while the circuit is open.
func (s *Source) queryPiece(ctx context.Context, timeout time.Duration, q Question, queries []KeyQuery) ([]checks.Finding, error) {
	if s.circuit.State() == gobreaker.StateOpen {
		return nil, s.outage(s.backingOff())
	}
	if err := s.querying.acquire(ctx); err != nil {
		return nil, s.notQueried(err)
	}
	if err := s.rate.WaitN(ctx, len(queries)); err != nil {
		s.querying.release()
		return nil, fmt.Errorf("source %s is limited to %g keys per second, and the wait exceeds the timeout: %w", s.Name, s.Limits.Rate, err)
	}
	found, err := runner[[]checks.Finding](ctx)(ctx, s, s.querying, timeout, func(ctx context.Context) ([]checks.Finding, error) {
		startedAt := s.Now()
		found, err := s.Client.Query(ctx, q, queries)
		took := s.Now().Sub(startedAt)
		s.stats.took(took)
		s.Observer.RoundTrip(s.Name, took)
		if err == nil && len(found) != len(queries) {
			err = fmt.Errorf("%w: it returned %d answers to %d queries", errClient, len(found), len(queries))
		}
		return found, err
	})
	if errors.Is(err, ErrQuestion) || errors.Is(err, errClient) {
		// The failure affects all jobs of the rule. It raises one alert, not one per job.
		return nil, s.outage(err)
	}
	return found, err
}

// The bounds of Verify and Reach.
const (
	verifyConcurrency = 2
	verifyTimeout     = 4 * time.Second // less than the client's timeout when saving a rule
)

// Verify validates a question without executing it, like Client.Verify. It fails at once while the circuit is open.
// The result does not count toward the source's health: the author of a rule must not cut off the source for the
// rules that use it.
func (s *Source) Verify(ctx context.Context, q Question, params int) ([]Column, error) {
	if s.circuit.State() == gobreaker.StateOpen {
		return nil, s.outage(s.backingOff())
	}
	if err := s.probing.acquire(ctx); err != nil {
		return nil, s.notQueried(err)
	}
	columns, err := call(ctx, s, s.probing, verifyTimeout, func(ctx context.Context) ([]Column, error) { return s.Client.Verify(ctx, q, params) })
	return columns, s.named(err)
}

// Reach returns an error if the source can't be queried. It makes no call while the circuit is open.
func (s *Source) Reach(ctx context.Context) error {
	if s.querying.areStuck() {
		return s.outage(errAllStuck)
	}
	if err := s.probing.acquire(ctx); err != nil {
		return s.notQueried(err)
	}
	_, err := breakerResult(ctx, s, s.probing, verifyTimeout, s.reach)
	return s.named(err)
}

// Try returns an error if the source can't be reached now. It calls the client even while the circuit is open.
func (s *Source) Try(ctx context.Context) error {
	if err := s.probing.acquire(ctx); err != nil {
		return s.notQueried(err)
	}
	_, err := call(ctx, s, s.probing, verifyTimeout, s.reach)
	return err
}

func (s *Source) reach(ctx context.Context) (struct{}, error) {
	return struct{}{}, s.Client.Reach(ctx)
}

// named adds the source's name to an error that lacks it.
func (s *Source) named(err error) error {
	if errors.Is(err, ErrQuestion) || errors.Is(err, errClient) {
		return fmt.Errorf("source %s: %w", s.Name, err)
	}
	return err
}

// notQueried wraps the error of a failed acquire.
func (s *Source) notQueried(err error) error {
	if errors.Is(err, errAllStuck) {
		return s.outage(err)
	}
	return fmt.Errorf("source %s was not queried: %w", s.Name, err)
}

func (s *Source) outage(err error) error { return &checks.Outage{Source: s.Name, Err: err} }

func (s *Source) count(found []checks.Finding) {
	counts := make(map[Outcome]int, 1)
	for _, f := range found {
		counts[outcomeOf(f)]++
	}
	s.stats.countKeys(len(found))
	for outcome, n := range counts {
		s.Observer.CountKeys(s.Name, outcome, n)
	}
}

func outcomeOf(f checks.Finding) Outcome {
	var outage *checks.Outage
	switch {
	case errors.As(f.Err, &outage):
		return Outage
	case f.Err != nil:
		return Failed
	case f.Value == nil:
		return Absent
	}
	return Found
}

// Limits bound the queries to a source and the effects of its failures. Zero selects the default.
type Limits struct {
	Concurrency int           // concurrent batches; 4
	Waiting     int           // queued batches; 8
	Rate        float64       // keys per second on average, and in one burst; 0: unlimited
	OpenAfter   int           // consecutive failures of the source until the circuit opens; 5
	OpenFor     time.Duration // time until one batch is let through as a trial; 10 s
}

// WithDefaults returns the limits with zeros replaced by the defaults.
func (l Limits) WithDefaults() Limits {
	l.Concurrency, l.Waiting = cmp.Or(l.Concurrency, 4), cmp.Or(l.Waiting, 8)
	l.OpenAfter, l.OpenFor = cmp.Or(l.OpenAfter, 5), cmp.Or(l.OpenFor, 10*time.Second)
	return l
}
