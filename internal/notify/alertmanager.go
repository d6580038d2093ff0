package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"deadman/alerts"
)

// alertmanager is a channel to the Alertmanagers of a cluster, over version 2 of their API
// (https://prometheus.io/docs/alerting/latest/alerts_api/). An Alertmanager forgets an alert that is not sent again: it gets
// the states of the alerts at intervals, in place of messages. It is safe for concurrent use.
type alertmanager struct {
	interval time.Duration // between two rounds that send the open alerts again
	header   http.Header
	client   *http.Client
	log      *slog.Logger
	reason   func(error) string // the text of an error, free of secrets

	mu      sync.Mutex
	members []*member
	ended   map[model.Fingerprint]postedAlert // resolved alerts that the next rounds repeat
}

// member is one Alertmanager of a cluster.
type member struct {
	url    string // of the operation that receives alerts
	failed bool   // the last attempt; only rounds try it again while another one works
}

// The timing and limits of Alertmanager channels.
const (
	defaultResend = time.Minute
	minResend     = 10 * time.Second
	maxResend     = time.Hour
	maxMembers    = 20

	// lastingIntervals is the number of intervals after which an alert ends that is not sent again, as in Prometheus.
	lastingIntervals = 4
	// endedTime is the time after its decision at which an alert ends that nothing ends later, because its job has ended.
	endedTime = time.Hour
	// maxEnded bounds the resolved alerts that are repeated.
	maxEnded = 10_000
)

// alertsPath is the operation of an Alertmanager that receives alerts, below its base URL.
const alertsPath = "/api/v2/alerts"

// postedAlert is an alert for an Alertmanager.
type postedAlert struct {
	prometheusAlert
	resolvedAt time.Time // zero: the alert fires
}

func newAlertmanager(s Spec, client *http.Client) (*alertmanager, error) {
	c := &alertmanager{
		interval: s.Resend, header: headerOf(s.Headers), client: client, log: slog.New(slog.DiscardHandler), reason: s.reason,
		ended: make(map[model.Fingerprint]postedAlert),
	}
	if c.interval == 0 {
		c.interval = defaultResend
	}
	for _, base := range s.addresses() {
		u, err := url.Parse(base)
		if err != nil {
			return nil, errUnreadable
		}
		c.members = append(c.members, &member{url: u.JoinPath(alertsPath).String()})
	}
	return c, nil
}

// Send implements Channel. It serves the tests of a channel: the alerts fire until they are not sent again, and each member
// has to accept them.
func (c *alertmanager) Send(ctx context.Context, m Message) error {
	posted := make([]postedAlert, len(m.Alerts))
	for i, a := range m.Alerts {
		posted[i] = c.firing(a, m.At, "")
	}
	return errors.Join(c.post(ctx, c.members, posted)...)
}

// firing returns an alert that fires, and ends some intervals later unless it is sent again.
func (c *alertmanager) firing(a alerts.Alert, now time.Time, description string) postedAlert {
	return newPostedAlert(a, now.Add(lastingIntervals*c.interval), description)
}

func newPostedAlert(a alerts.Alert, endsAt time.Time, description string) postedAlert {
	p := postedAlert{prometheusAlert: newPrometheusAlert(a, endsAt, description)}
	if a.Status != alerts.Firing {
		p.Annotations["status"] = model.LabelValue(a.Status)
	}
	return p
}

// push sends alerts to the members that work or, in a round, to all. Of several alerts with the same labels the last one
// counts. It returns an error if no member accepts them. A member that fails gets the open ones in a later round.
func (c *alertmanager) push(ctx context.Context, posted []postedAlert, round bool) error {
	posted = newestOfLabels(posted)
	if len(posted) == 0 {
		return nil
	}
	members := c.members
	if !round {
		members = c.working()
	}
	if err := c.pushTo(ctx, members, posted); err != nil {
		return err
	}
	c.noteEnded(posted)
	return nil
}

// beginRound repeats resolved alerts. Without any it sends an empty list, to find out if the members answer.
func (c *alertmanager) beginRound(ctx context.Context, now time.Time) error {
	return c.pushTo(ctx, c.members, c.takeEnded(now))
}

func (c *alertmanager) pushTo(ctx context.Context, members []*member, posted []postedAlert) error {
	failures := c.post(ctx, members, posted)
	c.mu.Lock()
	defer c.mu.Unlock()
	accepted := false
	for i, m := range members {
		if failed := failures[i] != nil; failed != m.failed && len(c.members) > 1 {
			c.noteMember(m, failures[i])
		}
		m.failed = failures[i] != nil
		accepted = accepted || !m.failed
	}
	if accepted {
		return nil
	}
	return errors.Join(failures...)
}

// noteMember logs that a member of a cluster fails, or accepts alerts again. The caller holds the lock.
func (c *alertmanager) noteMember(m *member, failure error) {
	host := ""
	if u, err := url.Parse(m.url); err == nil {
		host = u.Host
	}
	if failure != nil {
		c.log.Warn("an Alertmanager of a cluster does not accept alerts; it gets the open ones when it does", "host", host, "err", c.reason(failure))
		return
	}
	c.log.Info("an Alertmanager of a cluster accepts alerts again", "host", host)
}

// noteEnded remembers resolved alerts for the next rounds, and forgets those that fire again.
func (c *alertmanager) noteEnded(posted []postedAlert) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range posted {
		switch fingerprint := p.Labels.Fingerprint(); {
		case p.resolvedAt.IsZero():
			delete(c.ended, fingerprint)
		case len(c.ended) < maxEnded:
			c.ended[fingerprint] = p
		}
	}
}

// takeEnded returns the resolved alerts to repeat: an Alertmanager with a late clock takes an end in its future for
// the end of an alert that fires. Those that were resolved an interval ago are repeated for the last time.
func (c *alertmanager) takeEnded(now time.Time) []postedAlert {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]postedAlert, 0, len(c.ended))
	for fingerprint, p := range c.ended {
		all = append(all, p)
		if now.Sub(p.resolvedAt) >= c.interval {
			delete(c.ended, fingerprint)
		}
	}
	return all
}

// working returns the members that did not fail, or all if all failed.
func (c *alertmanager) working() (members []*member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if !m.failed {
			members = append(members, m)
		}
	}
	if len(members) == 0 {
		return c.members
	}
	return members
}

// newestOfLabels returns the last one of the alerts with the same labels: an Alertmanager knows one.
func newestOfLabels(posted []postedAlert) []postedAlert {
	newest := make([]postedAlert, 0, len(posted))
	places := make(map[model.Fingerprint]int, len(posted))
	for _, p := range posted {
		fingerprint := p.Labels.Fingerprint()
		if i, ok := places[fingerprint]; ok {
			newest[i] = p
			continue
		}
		places[fingerprint] = len(newest)
		newest = append(newest, p)
	}
	return newest
}

// post sends alerts to members at the same time, and returns the error of each.
func (c *alertmanager) post(ctx context.Context, members []*member, posted []postedAlert) []error {
	failures := make([]error, len(members))
	body, err := json.Marshal(posted)
	if err != nil {
		return slices.Repeat([]error{err}, len(members))
	}
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() {
			r, err := newPost(ctx, m.url, c.header, body)
			if err == nil {
				err = do(c.client, r)
			}
			failures[i] = withRemedy(err)
		})
	}
	all.Wait()
	return failures
}

// withRemedy adds a remedy to the answer of an address that does not have the API: it may be a receiver of Alertmanager's
// webhooks: in former files this kind was theirs.
func withRemedy(err error) error {
	var answer *answerError
	if errors.As(err, &answer) && (answer.status == http.StatusNotFound || answer.status == http.StatusMethodNotAllowed) {
		return fmt.Errorf("%w; the url is the base URL of an Alertmanager, to which %s is appended; a receiver of Alertmanager's webhooks has the kind %s",
			err, strings.TrimPrefix(alertsPath, "/"), AlertmanagerWebhook)
	}
	return err
}
