package ha_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	behind    = 9 * time.Second // the standbys lose the commits of this time
	ownedJobs = 10              // jobs that no event can create again
)

// loseCommits promotes a standby that lacks the last commits, and checks what deadman finds by itself: events are read again,
// each alert of them is in the stream once, and an alert reports the restored state. Jobs created over HTTP are lost.
func (b *bed) loseCommits() {
	b.Helper()
	b.awaitPostgres()
	b.awaitNATS()
	b.startNodes(*pooling)
	b.awaitNodes()
	b.configure(`{"synchronous_mode": false, "maximum_lag_on_failover": 1073741824}`)
	b.awaitMembers("replica")
	primary := b.memberIn("leader")
	b.awaitStandbys(primary, members-1)

	l := b.startLoad("an asynchronous standby loses commits")
	pause(b.T, before)
	primary.link.Stop()
	b.awaitStandbys(primary, 0)
	for i := range ownedJobs {
		body := fmt.Sprintf(`{"rule": "order-unshipped", "key": "http-%d", "event": {"id": "http-%d"}}`, i, i)
		if _, err := request(b.Context(), http.MethodPost, "http://"+b.nodeAt[0]+"/api/v1/jobs", body); err != nil {
			b.Fatal(err)
		}
	}
	pause(b.T, behind)
	fault := time.Now()
	primary.killMachine()
	if err := primary.link.Start(); err != nil {
		b.Fatal(err)
	}
	pause(b.T, failed)
	primary.start()
	pause(b.T, after)
	l.stop()
	v := l.judge(true)
	v.report(l, fault)
	b.checkReport(v)
	b.checkOwnedJobs(v)
	b.awaitNodes() // the report is closed by itself
	b.configure(`{"synchronous_mode": true}`)
	b.awaitPostgres() // the former primary is a standby again
}

// awaitStandbys waits until a number of standbys replicate from the primary.
func (b *bed) awaitStandbys(primary *member, n int) {
	b.Helper()
	within(b.T, fmt.Sprintf("%d standbys replicate", n), func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, "postgres://postgres:secret-of-postgres@"+primary.link.Upstream+"/postgres")
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		var found int
		var names string
		err = c.QueryRow(ctx, `SELECT count(*), current_setting('synchronous_standby_names') FROM pg_stat_replication`).Scan(&found, &names)
		if err == nil && (found != n || names != "") {
			err = fmt.Errorf("%d standbys replicate, synchronous are %q", found, names)
		}
		return err
	})
}

// checkReport checks that the loss was alerted once, and closed once the streams were read again.
func (b *bed) checkReport(v *verdict) {
	b.Helper()
	states := map[string]int{}
	for _, a := range v.own {
		if a.Key == "database" && (a.Step == "restored" || a.Status == "resolved") {
			states[a.Status]++
			fmt.Printf("figure: deadman reports (%s): %s\n", a.Status, strings.ReplaceAll(a.Text, "\n", " "))
		}
	}
	if states["firing"] != 1 {
		b.Errorf("the loss is alerted %d times: %+v", states["firing"], v.own)
	}
}

// checkOwnedJobs checks that the jobs of HTTP are lost, and that their alerts are closed.
func (b *bed) checkOwnedJobs(v *verdict) {
	b.Helper()
	raised, open, pending := 0, map[string]bool{}, 0
	for _, a := range v.other {
		if !strings.HasPrefix(a.Key, "http-") {
			continue
		}
		open[a.Key] = a.Status == "firing"
		if a.Status == "firing" {
			raised++
		}
	}
	for key, isOpen := range open {
		if isOpen {
			b.Errorf("the alert of the lost job %s stays open", key)
		}
	}
	for i := range ownedJobs {
		within(b.T, "a node answers", func(ctx context.Context) error {
			_, err := request(ctx, http.MethodGet, fmt.Sprintf("http://%s/api/v1/jobs/order-unshipped/http-%d", b.nodeAt[1], i), "")
			if err == nil {
				pending++
			} else if strings.Contains(err.Error(), "404") {
				err = nil
			}
			return err
		})
	}
	if raised == 0 || pending > 0 {
		b.Errorf("jobs of HTTP: %d alerts before the failover, and %d of %d jobs are still pending: no commit was lost", raised, pending, ownedJobs)
	}
	fmt.Printf("figure: jobs created over HTTP: %d, lost %d; their alerts before the failover: %d, all closed\n", ownedJobs, ownedJobs-pending, raised)
}
