package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// The parameters of outages.
const (
	outagesOfSite   = 10 // consecutive outages
	shortestOutage  = time.Second
	longestOutage   = 6 * time.Hour
	outageSettles   = 3 * time.Second // time for decisions to be written
	heldByTheKernel = 3 * time.Second // input to a stopped process is received after it resumes
	livingDevices   = 8
)

// The rules of a site: its devices send pings, or heartbeats over a stream.
const (
	pingedRule   = "pinged"
	streamedRule = "streamed"
)

// outageKind is the kind of an outage.
type outageKind string

const (
	nodeDown    outageKind = "the node is down"
	brokerDown  outageKind = "the broker is down"
	databaseOff outageKind = "the database is away"
	standstill  outageKind = "the process stands still"
)

var outageKinds = []outageKind{nodeDown, brokerDown, databaseOff, standstill}

// TestVirtualOutages plays outages of deadman itself, in virtual time on the real SQLite store, while devices send
// heartbeats and some fall silent: no device that sends is alerted, and each silent one is, within an interval, two
// graces and a slot of the last obstacle.
func TestVirtualOutages(t *testing.T) {
	sites := 3
	if *runs > 0 {
		sites = 100 // 1,000 outages
	}
	for i := range sites {
		t.Run(fmt.Sprint("site ", i), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { runSite(t, *seed+uint64(i)) })
		})
	}
}

// outageSite is a node with its broker and its devices.
type outageSite struct {
	t        *testing.T
	random   *rand.Rand
	every    time.Duration
	grace    time.Duration
	slot     time.Duration
	embedded bool // the broker is in the process, and the devices lose events that it rejects

	dir         string
	stream      *memoryStream
	gate        *gate
	store       *store.Store // nil: the node is down
	catalog     *rules.Catalog
	gapDetector *futurejobs.GapDetector
	stop        context.CancelFunc
	done        chan error

	now     outageKind // empty: none
	until   time.Time  // end of the outage
	devices []*device
	outages []timeSpan
}

// timeSpan is the period of an outage.
type timeSpan struct{ from, to time.Time }

// device sends heartbeats until it falls silent.
type device struct {
	key    string
	rule   string
	period time.Duration
	next   time.Time
	silent time.Time // zero: not silent
}

// newOutageSite returns a site without faults.
func newOutageSite(t *testing.T, random *rand.Rand, every, grace, slot time.Duration) *outageSite {
	s := &outageSite{
		t: t, random: random, dir: storetest.DataDir(t), stream: newMemoryStream(), gate: &gate{}, embedded: random.IntN(2) == 0,
		every: every, grace: grace, slot: slot,
	}
	s.open()
	s.save()
	s.begin()
	for i := range livingDevices {
		s.device(fmt.Sprintf("living-%d", i))
	}
	s.run(time.Now().Add(s.deadline()))
	return s
}

func runSite(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 6))
	every := []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, time.Hour}[random.IntN(4)]
	s := newOutageSite(t, random, every, every/time.Duration(2+random.IntN(4)), 10*time.Second)
	for i := range outagesOfSite {
		s.silence(i)
		s.run(time.Now().Add(time.Duration(random.Int64N(int64(s.deadline())))))
		s.outage(outageKinds[random.IntN(len(outageKinds))], s.length())
		quiet := s.deadline() + time.Duration(random.Int64N(int64(s.deadline())))
		if i%3 == 1 { // sometimes shorter than the heartbeat's timeout
			quiet = time.Duration(random.Int64N(int64(s.every)))
		}
		s.run(time.Now().Add(quiet))
	}
	s.run(time.Now().Add(3 * s.deadline()))
	s.checkAlerts()
	s.end()
}

// TestShortRestarts restarts a node repeatedly within seconds, while the time left for heartbeats of the devices is
// hardly longer.
func TestShortRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newOutageSite(t, rand.New(rand.NewPCG(1, 6)), 10*time.Second, 2*time.Second, time.Second)
		for i := range 20 {
			s.run(time.Now().Add(time.Duration(s.random.Int64N(int64(s.every)))))
			s.outage(nodeDown, 3*time.Second)
			if i%5 == 0 {
				s.silence(i)
				s.run(time.Now().Add(3 * s.deadline()))
			}
			s.run(time.Now().Add(s.deadline()))
		}
		s.checkAlerts()
		s.end()
	})
}

// deadline returns the maximum time until a silent device is alerted: the heartbeat's timeout, a slot and the engine's
// time.
func (s *outageSite) deadline() time.Duration { return s.every + 2*s.grace + s.slot + outageSettles }

// length draws the length of an outage: seconds, minutes or hours.
func (s *outageSite) length() time.Duration {
	return time.Duration(float64(shortestOutage) * math.Pow(float64(longestOutage/shortestOutage), s.random.Float64()))
}

// silence adds two devices that fall silent soon.
func (s *outageSite) silence(i int) {
	for d := range 2 {
		dying := s.device(fmt.Sprintf("dying-%d-%d", i, d))
		dying.silent = time.Now().Add(time.Duration(s.random.Int64N(2 * int64(s.deadline()))))
	}
}

// outage plays an outage.
func (s *outageSite) outage(kind outageKind, length time.Duration) {
	from := time.Now()
	s.now, s.until = kind, from.Add(length)
	switch kind {
	case nodeDown:
		s.end()
		s.stream.setUnavailable(s.embedded)
	case brokerDown:
		s.stream.setUnavailable(true)
	case databaseOff, standstill:
		s.gate.set(kind == databaseOff, kind == standstill)
	}
	s.run(s.until)
	s.now = ""
	switch kind {
	case nodeDown:
		s.restoreBroker()
		s.open()
		s.begin()
	case brokerDown:
		s.restoreBroker()
	case databaseOff, standstill:
		s.gate.set(false, false)
	}
	s.outages = append(s.outages, timeSpan{from, time.Now()})
}

// restoreBroker makes the broker accept events again.
func (s *outageSite) restoreBroker() {
	if s.stream.uptime() == 0 {
		s.stream.setUnavailable(false)
	}
}

// device adds a device, which sends a heartbeat at once and then at least once per interval.
func (s *outageSite) device(name string) *device {
	d := &device{rule: []string{pingedRule, streamedRule}[len(s.devices)%2], next: time.Now()}
	d.key = d.rule + "-" + name
	d.period = time.Duration((0.6 + 0.4*s.random.Float64()) * float64(s.every))
	s.devices = append(s.devices, d)
	return d
}

// run makes the devices send heartbeats until an instant.
func (s *outageSite) run(until time.Time) {
	for {
		next := slices.MinFunc(s.devices, func(a, b *device) int { return a.next.Compare(b.next) })
		if next.next.After(until) {
			time.Sleep(time.Until(until))
			return
		}
		time.Sleep(time.Until(next.next))
		if !next.silent.IsZero() && !next.next.Before(next.silent) {
			next.next = until.Add(1000 * time.Hour)
			continue
		}
		s.beat(next)
		late := time.Duration(s.random.Int64N(int64(s.grace / 2)))
		next.next = next.next.Add(next.period + late)
	}
}

// beat sends a heartbeat of a device, if it can be received.
func (s *outageSite) beat(d *device) {
	if s.now == standstill && time.Until(s.until) < heldByTheKernel {
		d.next = s.until.Add(time.Millisecond)
		time.AfterFunc(time.Until(d.next), func() { s.send(d) })
		return
	}
	s.send(d)
}

func (s *outageSite) send(d *device) {
	if d.rule == streamedRule {
		if !s.embedded || s.now != standstill {
			s.stream.publish("devices.beat", fmt.Appendf(nil, `{"id":%q}`, d.key))
		}
		return
	}
	if s.store == nil || s.now == standstill {
		return
	}
	rule, err := s.catalog.Newest(pingedRule)
	if err != nil {
		s.t.Error(err)
		return
	}
	beat, err := rule.HeartbeatEffect(rules.ReceivedHeartbeat{Key: d.key, At: time.Now(), Kind: rules.Success}, s.store.Shards())
	if err != nil {
		s.t.Error(err)
		return
	}
	batch := futurejobs.EffectBatch{RuleSet: s.catalog.Revision(), Effects: []futurejobs.Effect{beat}}
	if _, err := (gatedStore{s.store, s.gate}).Apply(s.t.Context(), batch); err != nil {
		s.gapDetector.MarkMissed()
	}
}

func (s *outageSite) open() {
	var err error
	s.store, err = store.Open(s.t.Context(), store.Options{DataDir: s.dir, Shards: 4, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.store.Reclaim(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.catalog = rules.NewCatalog(s.store, s.store.Shards())
}

func (s *outageSite) save() {
	for name, event := range map[string]string{pingedRule: "", streamedRule: "event: devices.beat, key: event.id, "} {
		text := fmt.Sprintf("name: %s\nentity: device\nslot: %s\ntrigger: {heartbeat: {%severy: %s, grace: %s}}\n", name, s.slot, event, s.every, s.grace)
		documents, err := rules.Parse([]byte(text), "")
		if err != nil {
			s.t.Fatal(err)
		}
		document, err := json.Marshal(documents[0])
		if err != nil {
			s.t.Fatal(err)
		}
		saved := rules.RuleVersion{Name: name, Entity: "device", Document: document}
		if event != "" {
			saved.Reads = []rules.StreamBinding{{Subject: "devices.beat", Stream: memoryStreamName}}
		}
		if _, err := s.store.Save(s.t.Context(), saved, rules.AnyVersion); err != nil {
			s.t.Fatal(err)
		}
	}
}

// begin runs the engine: leases, gap records, ingest and sweeps.
func (s *outageSite) begin() {
	if err := s.catalog.Refresh(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	quiet, seen, begun := slog.New(slog.DiscardHandler), gatedStore{s.store, s.gate}, time.Now()
	clock := futurejobs.NewClock(seen.Now, time.Now)
	s.gapDetector = futurejobs.NewGapDetector(seen, "virtual", time.Now, quiet)
	owner := futurejobs.NewOwner(s.store, futurejobs.Node{ID: "virtual", Name: "virtual"}, futurejobs.Day, time.Now, quiet)
	sweeper := futurejobs.NewSweeper(seen, s.catalog, owner, clock, 4, quiet)
	sweeper.BeforeSweep = s.gapDetector.Flush
	detector := s.gapDetector
	intake := events.NewIntake(events.Options{
		Streams: s.stream, Catalog: s.catalog, Store: seen, Shards: owner, Now: clock.Now, Log: quiet,
		Announce: func(context.Context, alerts.SystemAlert) error { return nil },
		BrokerUptime: func() time.Duration {
			up := min(s.stream.uptime(), time.Since(begun))
			if s.embedded {
				up = min(up, detector.Uptime())
			}
			return up
		},
	})
	owner.Changed = func() { sweeper.Wake(); intake.Wake() }

	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.done = cancel, make(chan error, 4)
	go func() { s.done <- owner.Run(ctx) }()
	go func() { s.done <- detector.Run(ctx) }()
	go func() { s.done <- intake.Run(ctx) }()
	go func() { s.done <- sweeper.Run(ctx, context.Background()) }()
}

// end stops the engine and closes the store.
func (s *outageSite) end() {
	s.stop()
	for range cap(s.done) {
		if err := <-s.done; err != nil {
			s.t.Error(err)
		}
	}
	if err := s.store.Close(); err != nil {
		s.t.Error(err)
	}
	s.store = nil
}

// checkAlerts compares the alerts with the devices.
func (s *outageSite) checkAlerts() {
	raised := s.firstAlerts()
	for _, d := range s.devices {
		at, was := raised[d.key]
		switch {
		case d.silent.IsZero() && was:
			s.t.Errorf("%s is alive, and was alerted as silent at %s; %s", d.key, at, s.outagesAround(at))
		case d.silent.IsZero():
		case !was:
			s.t.Errorf("%s fell silent at %s without an alert", d.key, d.silent)
		case at.Before(d.silent):
			s.t.Errorf("%s was alive until %s, and was alerted as silent at %s; %s", d.key, d.silent, at, s.outagesAround(at))
		case at.After(s.latest(d.silent)):
			s.t.Errorf("%s fell silent at %s, and was alerted at %s, want by %s; %s", d.key, d.silent, at, s.latest(d.silent), s.outagesAround(at))
		}
	}
}

// latest returns the time by which a silent device must be alerted: wait after it fell silent, or after the end of the
// last outage in between.
func (s *outageSite) latest(silent time.Time) time.Time {
	by := silent.Add(s.deadline())
	for _, o := range s.outages {
		if o.from.Before(by) && o.to.After(silent) {
			by = o.to.Add(s.deadline())
		}
	}
	return by
}

func (s *outageSite) outagesAround(at time.Time) string {
	var text []string
	for _, o := range s.outages {
		if o.to.After(at.Add(-3*s.deadline())) && o.from.Before(at.Add(time.Hour)) {
			text = append(text, fmt.Sprintf("out from %s to %s", o.from, o.to))
		}
	}
	return fmt.Sprintf("every %s, grace %s, embedded %v, %s", s.every, s.grace, s.embedded, strings.Join(text, ", "))
}

// firstAlerts returns the time of the first alert of each device.
func (s *outageSite) firstAlerts() map[string]time.Time {
	first := make(map[string]time.Time)
	filter := futurejobs.Filter{Limit: futurejobs.MaxLimit}
	for {
		page, err := s.store.Alerts(s.t.Context(), filter)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, a := range page.Items {
			if before, was := first[a.Key]; a.Status == alerts.Firing && (!was || a.DecidedAt.Before(before)) {
				first[a.Key] = a.DecidedAt
			}
		}
		if filter.Cursor = page.Next; filter.Cursor == "" {
			return first
		}
	}
}
