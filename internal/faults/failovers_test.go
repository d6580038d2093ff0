package faults_test

import (
	"math/rand/v2"
	"time"

	"deadman/internal/store/storetest"
)

// drawCrash kills all Postgres processes, after which the database recovers.
func drawCrash(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random)}
	s.addNode(random, 2)
	var cluster *storetest.Cluster
	s.database = func(a *testbed) { cluster = onCluster(a) }
	s.stage = func(a *testbed, _ *rand.Rand) { startClients(a) }
	s.upset = func(a *testbed, random *rand.Rand) {
		for range 1 + random.IntN(2) {
			pause(span(random, 200*time.Millisecond, 1200*time.Millisecond))
			a.record("the database is killed")
			a.checkErr(cluster.Crash())
			pause(span(random, 50*time.Millisecond, 1500*time.Millisecond))
			a.checkErr(cluster.Restart())
			a.record("the database has recovered")
		}
	}
}

// drawFailover kills the primary and promotes the standby. A standby with asynchronous replication was cut off before
// and lacks commits: among them a job and its alert, which tell the nodes of the loss. Nodes cannot detect it if all
// lost alerts are raised again at once, or if none is lost.
func drawFailover(synchronous bool) func(*scenario, *rand.Rand) {
	return func(s *scenario, random *rand.Rand) {
		s.nodes = [][]string{nodePlan(random)}
		s.addNode(random, 2)
		var r *replicated
		s.database = func(a *testbed) {
			r = onReplicated(a)
			if a.Lossy = !synchronous; synchronous {
				a.checkErr(r.primary.CommitSynchronously())
			}
		}
		var clients *saves
		s.stage = func(a *testbed, _ *rand.Rand) { clients = startClients(a) }
		s.upset = func(a *testbed, random *rand.Rand) {
			pause(span(random, 200*time.Millisecond, 3*time.Second))
			if !synchronous {
				a.record("the standby is cut off")
				r.link.inject(fault{name: "cut"})
				clients.checkRaisedSince(time.Now())
				pause(span(random, 100*time.Millisecond, 2*time.Second))
			}
			a.record("the primary is killed")
			a.checkErr(r.primary.Crash())
			pause(span(random, 50*time.Millisecond, 1500*time.Millisecond))
			if !synchronous {
				a.FailedOver = time.Now()
			}
			a.checkErr(r.standby.Promote())
			a.record("the standby is the primary")
		}
	}
}

// checkErr fails the run if a fault could not be injected.
func (a *testbed) checkErr(err error) {
	a.Helper()
	if err != nil {
		a.Error(err)
	}
}
