package faults_test

import (
	"math/rand/v2"
	"time"

	"deadman/internal/store/storetest"
)

// drawCrash kills all Postgres processes, after which the database recovers.
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

// drawFailover kills the primary and promotes the standby. A standby with asynchronous replication was cut off before
// and lacks commits: among them a job and its alert, which tell the nodes of the loss. Nodes cannot detect it if all
// lost alerts are raised again at once, or if none is lost.
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

// done fails the run if a fault could not be injected.
func (a *arena) done(err error) {
	a.Helper()
	if err != nil {
		a.Error(err)
	}
}
