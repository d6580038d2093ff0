package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/faults"
)

var scheduleFailpoints = []string{"stored.decided", "stored.published", "stored.published"}

// drawSchedules kills and stops nodes that emit the events of stored schedules, and breaks the broker or the database.
func drawSchedules(s *scenario, random *rand.Rand) {
	s.stage, s.nodes = openSchedules, [][]string{scheduleLives(random)}
	switch random.IntN(4) {
	case 0:
		s.nodes = append(s.nodes, []string{seeded(random, fmt.Sprintf("%s=stop@%d", scheduleFailpoints[random.IntN(len(scheduleFailpoints))], 1+random.IntN(12)))})
	case 1:
		s.nodes, s.upset = append(s.nodes, []string{""}), killBroker
	case 2:
		s.upset = breakLink("database", "cut", "half-open")
	}
}

// drawSchedulesInSQLite kills a node with SQLite that emits the events of stored schedules, and the broker.
func drawSchedulesInSQLite(s *scenario, random *rand.Rand) {
	s.stage, s.database, s.nodes = openSchedules, onSQLite, [][]string{scheduleLives(random)}
	if random.IntN(2) == 0 {
		s.upset = killBroker
	}
}

// scheduleLives draws where one or two lives of a node end.
func scheduleLives(random *rand.Rand) []string {
	lives := make([]string, 1+random.IntN(2))
	for i := range lives {
		lives[i] = seeded(random, fmt.Sprintf("%s=kill@%d", scheduleFailpoints[random.IntN(len(scheduleFailpoints))], 1+random.IntN(12)))
	}
	return lives
}

// openSchedules gives the testbed stored schedules. The duplicate window of the stream of their events is shorter than any
// death of a node.
func openSchedules(a *testbed, _ *rand.Rand) {
	a.Helper()
	if _, err := a.jetStream().CreateStream(a.Context(), jetstream.StreamConfig{
		Name: faults.ScheduleSource, Subjects: []string{faults.ScheduleSubject}, Duplicates: 100 * time.Millisecond, AllowAtomicPublish: true,
	}); err != nil {
		a.Fatal(err)
	}
	s := &schedules{testbed: a}
	a.rules, a.play = "schedules", s.play
	a.model = func(ctx context.Context) error { return a.CheckSchedules(ctx, s.changes) }
}

// schedules are stored schedules that a client changes.
type schedules struct {
	*testbed
	changes []faults.ScheduleChange
}

// The schedules of a run, of which the first ones are changed.
const (
	schedulesOfRun   = 60
	changedSchedules = 40
)

// play stores schedules, and deletes, disables or changes some of them while they tick.
func (s *schedules) play() {
	s.Helper()
	s.wait()
	line := func(i int, rest string) string {
		return fmt.Sprintf(`{"rule": %q, "id": "s%d", %s}`+"\n", faults.ScheduleRule, i, rest)
	}
	const ticks = `"schedule": "@every 1s", "data": `
	var all strings.Builder
	for i := range schedulesOfRun {
		all.WriteString(line(i, ticks+`"v0"`))
	}
	s.put(all.String())
	for i := range changedSchedules {
		pause(100 * time.Millisecond)
		change := faults.ScheduleChange{ID: fmt.Sprintf("s%d", i)}
		switch i % 3 {
		case 0:
			s.put(line(i, `"deleted": true`))
		case 1:
			s.put(line(i, ticks+`"v0", "enabled": false`))
		case 2:
			change.Data = `"v1"`
			s.put(line(i, ticks+change.Data))
		}
		change.At = time.Now()
		s.changes = append(s.changes, change)
	}
	pause(3 * time.Second)
	s.record("played")
}

// put changes schedules, until a node acknowledges that.
func (s *schedules) put(lines string) {
	s.Helper()
	eventually(s.T, time.Minute, "schedules are stored", func() bool {
		var done struct{ Refused int }
		err := s.call(http.MethodPost, "/api/v1/schedules/bulk", "application/x-ndjson", lines, &done)
		if err == nil && done.Refused > 0 {
			err = errors.New("schedules are refused")
		}
		if err != nil {
			s.record("schedules: %v", err)
			pause(100 * time.Millisecond)
		}
		return err == nil
	})
}
