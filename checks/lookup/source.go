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

// Options are what a source is made of.
type Options struct {
	Name   string
	Kind   string // what it is, for people, such as "postgres"
	Client Client // is closed with the source
	Limits Limits
	// Most is how many keys are asked about at once at most; 0: BatchMost. A client that asks about
	// each by itself answers no more in the time that a question has.
	Most int
	Now  func() time.Time
	// Observer is told of what is asked; nil: nobody is.
	Observer Observer
	Log      *slog.Logger // of panics of the client
}

// Observer is told of what sources are asked. It is called from many goroutines at once.
type Observer interface {
	// Asked is told of n keys of which the same came.
	Asked(source string, outcome Outcome, n int)
	// RoundTrip is told how long a client was asked about one batch.
	RoundTrip(source string, took time.Duration)
}

// Outcome is what came of asking about a key.
type Outcome string

// The outcomes.
const (
	Found  Outcome = "found"
	Absent Outcome = "absent"
	Failed Outcome = "error"  // of this key, or of the question
	Outage Outcome = "outage" // of the source
)

// Source asks a Client within bounds, so that one that hangs, drips or fails holds up nobody but
// those who ask it. It is safe for concurrent use.
//
//	Enter ─▶ line ─▶ a place ─▶ the rate ─▶ the circuit ─▶ Client, until its deadline
//
// What ignores its deadline is abandoned, and keeps its place until it returns: no more than
// Limits.Concurrency are ever on their way.
type Source struct {
	Options
	line    chan struct{} // who waits or asks
	asking  *semaphore
	looking *semaphore // of Verify and Reach, which do not wait behind batches
	rate    *rate.Limiter
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	tally   stats
}

// NewSource returns a source. Nothing is asked yet.
func NewSource(o Options) *Source {
	o.Limits, o.Most = o.Limits.WithDefaults(), cmp.Or(o.Most, BatchMost)
	if o.Observer == nil {
		o.Observer = nopObserver{}
	}
	s := &Source{
		Options: o,
		line:    make(chan struct{}, o.Limits.Concurrency+o.Limits.Waiting),
		asking:  newPlaces(o.Limits.Concurrency),
		looking: newPlaces(verifyConcurrency),
		rate:    rate.NewLimiter(rate.Inf, 0),
		circuit: newCircuit(o.Limits),
	}
	if o.Limits.Rate > 0 {
		s.rate = rate.NewLimiter(rate.Limit(o.Limits.Rate), s.piece())
	}
	return s
}

type nopObserver struct{}

func (nopObserver) Asked(string, Outcome, int)      {}
func (nopObserver) RoundTrip(string, time.Duration) {}

// Enter takes a place in the line; false: the line is full. Ask gives it back.
func (s *Source) Enter() bool {
	select {
	case s.line <- struct{}{}:
		return true
	default:
		return false
	}
}

// piece is how many keys are asked about at once.
func (s *Source) piece() int {
	if s.Limits.Rate == 0 {
		return s.Most
	}
	return min(s.Most, max(1, int(s.Limits.Rate)))
}

// Ask asks about up to BatchMost keys and gives the place in the line back. Each part of them
// that the rate and Most allow at once has up to timeout, from when the client begins. Finding i is of
// asks[i]; where the source as a whole can't be asked its error is a *checks.Outage.
func (s *Source) Ask(ctx context.Context, timeout time.Duration, q Question, asks []KeyQuery) []checks.Finding {
	defer func() { <-s.line }()
	found := make([]checks.Finding, 0, len(asks))
	for piece := range slices.Chunk(asks, s.piece()) {
		answers, err := s.askPiece(ctx, timeout, q, piece)
		if err != nil {
			found = append(found, slices.Repeat([]checks.Finding{{Err: err}}, len(asks)-len(found))...)
			break
		}
		found = append(found, answers...)
	}
	s.count(found)
	return found
}

// askPiece asks when it is its turn. Who waits learns at once that the source is down.
func (s *Source) askPiece(ctx context.Context, timeout time.Duration, q Question, asks []KeyQuery) ([]checks.Finding, error) {
	if s.circuit.State() == gobreaker.StateOpen {
		return nil, s.outage(s.backingOff())
	}
	if err := s.asking.acquire(ctx); err != nil {
		return nil, s.notAsked(err)
	}
	if err := s.rate.WaitN(ctx, len(asks)); err != nil {
		s.asking.release()
		return nil, fmt.Errorf("source %s is asked about %g keys in a second at most, and there is no time to wait for that: %w", s.Name, s.Limits.Rate, err)
	}
	found, err := way[[]checks.Finding](ctx)(ctx, s, s.asking, timeout, func(ctx context.Context) ([]checks.Finding, error) {
		began := s.Now()
		found, err := s.Client.Ask(ctx, q, asks)
		took := s.Now().Sub(began)
		s.tally.took(took)
		s.Observer.RoundTrip(s.Name, took)
		if err == nil && len(found) != len(asks) {
			err = fmt.Errorf("%w: it has %d answers to %d questions", errClient, len(found), len(asks))
		}
		return found, err
	})
	if errors.Is(err, ErrQuestion) || errors.Is(err, errClient) {
		// No job of the rule can be found out about. That is said once, not once per job.
		return nil, s.outage(err)
	}
	return found, err
}

// How Verify and Reach are bound.
const (
	verifyConcurrency = 2
	verifyTimeout     = 4 * time.Second // less than who saves a rule waits
)

// Verify finds out what is wrong with a question without asking it, as Client.Verify does. A
// source that is down is not asked. What comes of it does not count: the writer of a rule must not take the source from
// the rules that ask it.
func (s *Source) Verify(ctx context.Context, q Question, params int) ([]Column, error) {
	if s.circuit.State() == gobreaker.StateOpen {
		return nil, s.outage(s.backingOff())
	}
	if err := s.looking.acquire(ctx); err != nil {
		return nil, s.notAsked(err)
	}
	columns, err := call(ctx, s, s.looking, verifyTimeout, func(ctx context.Context) ([]Column, error) { return s.Client.Verify(ctx, q, params) })
	return columns, s.named(err)
}

// Reach reports why the source can't be asked. A source that is down is not bothered.
func (s *Source) Reach(ctx context.Context) error {
	if s.asking.areStuck() {
		return s.outage(errAllStuck)
	}
	if err := s.looking.acquire(ctx); err != nil {
		return s.notAsked(err)
	}
	_, err := breakerResult(ctx, s, s.looking, verifyTimeout, s.reach)
	return s.named(err)
}

// Try reports why the source can't be reached, now, also while it is left alone.
func (s *Source) Try(ctx context.Context) error {
	if err := s.looking.acquire(ctx); err != nil {
		return s.notAsked(err)
	}
	_, err := call(ctx, s, s.looking, verifyTimeout, s.reach)
	return err
}

func (s *Source) reach(ctx context.Context) (struct{}, error) {
	return struct{}{}, s.Client.Reach(ctx)
}

// named names the source in an error that does not.
func (s *Source) named(err error) error {
	if errors.Is(err, ErrQuestion) || errors.Is(err, errClient) {
		return fmt.Errorf("source %s: %w", s.Name, err)
	}
	return err
}

// notAsked is why nobody was asked: no place came free.
func (s *Source) notAsked(err error) error {
	if errors.Is(err, errAllStuck) {
		return s.outage(err)
	}
	return fmt.Errorf("source %s was not asked: %w", s.Name, err)
}

func (s *Source) outage(err error) error { return &checks.Outage{Source: s.Name, Err: err} }

func (s *Source) count(found []checks.Finding) {
	counts := make(map[Outcome]int, 1)
	for _, f := range found {
		counts[outcomeOf(f)]++
	}
	s.tally.asked(len(found))
	for outcome, n := range counts {
		s.Observer.Asked(s.Name, outcome, n)
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

// Limits bound what a source is asked, and what it can hold up. A zero is the default.
type Limits struct {
	Concurrency int           // batches that are asked about at once; 4
	Waiting     int           // batches that may wait in line; 8
	Rate        float64       // keys asked about in a second on average, and at once; 0: any
	OpenAfter   int           // failures of the source in a row, after which it is left alone; 5
	OpenFor     time.Duration // how long it is left alone before one batch tries again; 10 s
}

// WithDefaults are the limits with the defaults in the place of zeros.
func (l Limits) WithDefaults() Limits {
	l.Concurrency, l.Waiting = cmp.Or(l.Concurrency, 4), cmp.Or(l.Waiting, 8)
	l.OpenAfter, l.OpenFor = cmp.Or(l.OpenAfter, 5), cmp.Or(l.OpenFor, 10*time.Second)
	return l
}
