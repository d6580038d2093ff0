package faults_test

import (
	"math/rand/v2"
	"time"

	"deadman/internal/store/storetest"
)

// drawCrash has all processes of the Postgres be killed, and recover.
func drawCrash(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{one(random)}
	s.beside(random, 2)
	var cluster *storetest.Cluster
	s.database = func(a *arena) { cluster = onCluster(a) }
	s.stage = func(a *arena, _ *rand.Rand) { clientsSave(a) }
	s.upset = func(a *arena, random *rand.Rand) {
		for range 1 + random.IntN(2) {
			pause(span(random, 200*time.Millisecond, 1200*time.Millisecond))
			a.note("the database is killed")
			a.done(cluster.Crash())
			pause(span(random, 50*time.Millisecond, 1500*time.Millisecond))
			a.done(cluster.Restart())
			a.note("the database has recovered")
		}
	}
}

// drawFailover has the primary be killed, and the standby be promoted. One that does not replicate synchronously
// was cut off before, and lacks commits: among them a job and its alert, by which nodes find out. They do not find out
// where all alerts that are lost are raised again at once, or none is.
func drawFailover(synchronous bool) func(*scenario, *rand.Rand) {
	return func(s *scenario, random *rand.Rand) {
		s.nodes = [][]string{one(random)}
		s.beside(random, 2)
		var r *replicated
		s.database = func(a *arena) {
			r = onReplicated(a)
			if a.Lossy = !synchronous; synchronous {
				a.done(r.primary.CommitSynchronously())
			}
		}
		var clients *saves
		s.stage = func(a *arena, _ *rand.Rand) { clients = clientsSave(a) }
		s.upset = func(a *arena, random *rand.Rand) {
			pause(span(random, 200*time.Millisecond, 3*time.Second))
			if !synchronous {
				a.note("the standby is cut off")
				r.link.begin(fault{name: "cut"})
				clients.raisedSince(time.Now())
				pause(span(random, 100*time.Millisecond, 2*time.Second))
			}
			a.note("the primary is killed")
			a.done(r.primary.Crash())
			pause(span(random, 50*time.Millisecond, 1500*time.Millisecond))
			if !synchronous {
				a.FailedOver = time.Now()
			}
			a.done(r.standby.Promote())
			a.note("the standby is the primary")
		}
	}
}

// done fails the run where a fault could not be made.
func (a *arena) done(err error) {
	a.Helper()
	if err != nil {
		a.Error(err)
	}
}
