package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"deadman/alerts"
	"deadman/examples"
	"deadman/web"
)

const (
	jobTimeout    = 10 * time.Second // for the first order's job to appear
	demoTimeout   = 45 * time.Second // for the whole run; steps are due 10 and 20 s after an order
	maxFirstCheck = 30 * time.Second // a later first check belongs to another rule
	pollInterval  = 200 * time.Millisecond
)

func newDemoCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Short: "Send sample orders, some never shipped, and show the alerts",
		Long: `Sends events of twelve sample orders to a running node: most ship in time, one is cancelled, one
ships late and two never ship. Then it waits for the alerts, less than half a minute.

If the node has no rules, the demo creates the sample rule order-unshipped. If it has rules, it
leaves them unchanged and requires that this rule is among them.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := io.client()
			if err != nil {
				return err
			}
			return newDemo(io, c).run(cmd.Context())
		},
	}
	addURL(cmd.Flags(), io)
	return cmd
}

// demo is a run of the demo.
type demo struct {
	io     *cli
	c      *client
	orders []*order
	byID   map[string]*order
	rule   string // the rule for the orders
}

func newDemo(io *cli, c *client) *demo {
	d := &demo{io: io, c: c, byID: make(map[string]*order)}
	d.orders = newOrders("demo-" + uuid.NewString()[:6])
	for _, o := range d.orders {
		d.byID[o.id] = o
	}
	return d
}

// run plays the orders:
//
// 1. create the sample rule, if the node has no rules
// 2. follow the alerts, so that none is missed
// 3. place the first order, and make sure that a rule creates a job for it
// 4. place the other orders; ship or cancel as planned
// 5. wait for the expected alerts, and ship the late order after its alert
func (d *demo) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	if err := d.createSampleRule(ctx); err != nil {
		return err
	}
	received, failed := d.listen(ctx)

	d.progress(bold, "placing %d orders; the rule creates a job for each and expects it to be shipped", len(d.orders))
	var refused refusal
	if err := d.place(ctx, d.orders[0]); errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
		return fmt.Errorf("%w\n%s", err, d.ruleAdvice())
	} else if err != nil {
		return err
	}
	if err := d.findRule(ctx, d.orders[0]); err != nil {
		return err
	}
	if err := d.play(ctx, received, failed); err != nil {
		return err
	}
	d.summary()
	return nil
}

// play runs the plan and receives alerts until both are complete.
func (d *demo) play(ctx context.Context, received <-chan streamedAlert, failed <-chan error) error {
	plan := d.plan()
	next := time.NewTimer(0)
	defer next.Stop()
	for len(plan) > 0 || d.missingAlerts() > 0 {
		select {
		case <-next.C:
			if len(plan) == 0 {
				d.progress(bold, "all placed; %s not shipped yet, waiting for alerts", number(d.unshipped(), "order"))
				continue
			}
			if err := plan[0].do(ctx); err != nil {
				return err
			}
			next.Reset(plan[0].pause)
			plan = plan[1:]
		case a := <-received:
			if err := d.watchAlerts(ctx, a); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return d.timeoutError(ctx)
		}
	}
	return nil
}

// listen follows the alerts in the background until ctx is done.
func (d *demo) listen(ctx context.Context) (<-chan streamedAlert, <-chan error) {
	received, failed := make(chan streamedAlert), make(chan error, 1)
	go func() {
		for h, err := range followAlerts(ctx, d.c, reconnectBacklog, func(err error) { printReconnect(d.io, err) }) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case received <- h:
			case <-ctx.Done():
				return
			}
		}
	}()
	return received, failed
}

// findRule waits for the job of a placed order.
func (d *demo) findRule(ctx context.Context, o *order) error {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	for {
		page, _, err := get[web.Page[web.Job]](ctx, d.c, "/jobs", url.Values{"key": {o.id}})
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("no rule is triggered by orders: the event was accepted but created no job\n%s", d.ruleAdvice())
		case err != nil:
			return err
		case len(page.Items) > 0:
			return d.useRule(page.Items[0])
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

func (d *demo) useRule(j web.Job) error {
	d.rule = j.Rule
	if wait := j.NextCheckAt.Sub(d.io.now()); wait > maxFirstCheck {
		return fmt.Errorf("rule %s first checks an order %s, but the demo waits only %s\n%s", sanitize(j.Rule), d.io.relative(j.NextCheckAt), maxFirstCheck, d.ruleAdvice())
	}
	d.progress(dim, "rule %s created a job: the first check of order %s is %s", j.Rule, j.Key, d.io.relative(j.NextCheckAt))
	return nil
}

// watchAlerts handles an alert about an order of the demo.
func (d *demo) watchAlerts(ctx context.Context, h streamedAlert) error {
	o := d.byID[h.Key]
	if o == nil || (d.rule != "" && h.Rule != d.rule) {
		return nil // not an order of this demo
	}
	if err := printStreamedAlert(d.io, h); err != nil {
		return err
	}
	if o.expects(h.Status) <= o.received[h.Status] {
		return fmt.Errorf("unexpected alert for order %s (%s); please report this bug", o.id, o.outcome)
	}
	o.received[h.Status]++
	if o.outcome == late && h.Status == alerts.Firing {
		return d.ship(ctx, o, "late")
	}
	return nil
}

// missingAlerts counts the alerts still expected.
func (d *demo) missingAlerts() int {
	n := 0
	for _, o := range d.orders {
		for _, s := range []alerts.Status{alerts.Firing, alerts.Resolved} {
			n += o.expects(s) - o.received[s]
		}
	}
	return n
}

// timeoutError returns the error that lists the missing alerts.
func (d *demo) timeoutError(ctx context.Context) error {
	if ctx.Err() != context.DeadlineExceeded {
		return ctx.Err()
	}
	missing := ""
	for _, o := range d.orders {
		for _, s := range []alerts.Status{alerts.Firing, alerts.Resolved} {
			if n := o.expects(s) - o.received[s]; n > 0 {
				missing += fmt.Sprintf("\n  order %s (%s): %s, %s", o.id, o.outcome, number(n, "alert"), s)
			}
		}
	}
	return fmt.Errorf("alerts missing after %s:%s\ncheck the log of the node and %s/readyz", demoTimeout, missing, d.c.node)
}

// progress prints the progress of the demo. With -o json it goes to stderr, because stdout has the alerts only.
func (d *demo) progress(c colour, format string, args ...any) {
	w := d.io.out
	if d.io.output == asJSON {
		w = d.io.err
	}
	fmt.Fprintf(w, "%s  %s\n", d.io.palette.paint(dim, d.io.now().In(d.io.zone).Format("15:04:05")), d.io.palette.paint(c, sanitize(fmt.Sprintf(format, args...))))
}

// demoStep is an action with the pause after it.
type demoStep struct {
	do    func(context.Context) error
	pause time.Duration
}

// plan returns the steps after the first order: first the other orders, then their fates.
func (d *demo) plan() []demoStep {
	const placing, handling = 150 * time.Millisecond, 300 * time.Millisecond
	var plan []demoStep
	for _, o := range d.orders[1:] {
		plan = append(plan, demoStep{func(ctx context.Context) error { return d.place(ctx, o) }, placing})
	}
	for _, o := range d.orders {
		switch o.outcome {
		case inTime:
			plan = append(plan, demoStep{func(ctx context.Context) error { return d.ship(ctx, o, "in time") }, handling})
		case cancelled:
			plan = append(plan, demoStep{func(ctx context.Context) error { return d.cancel(ctx, o) }, handling})
		case late, never:
		}
	}
	return plan
}

func (d *demo) place(ctx context.Context, o *order) error {
	d.progress(normal, "order %s placed by %s, %.2f", o.id, o.customer, o.total)
	return d.send(ctx, "orders.created", o, map[string]any{
		"id": o.id, "customer": o.customer, "total": o.total, "placed_at": d.io.now().UTC().Format(time.RFC3339Nano),
	})
}

func (d *demo) ship(ctx context.Context, o *order, how string) error {
	d.progress(green, "order %s shipped %s", o.id, how)
	o.shipped = true
	return d.send(ctx, "orders.shipped", o, map[string]any{"id": o.id})
}

func (d *demo) cancel(ctx context.Context, o *order) error {
	d.progress(blue, "order %s cancelled by %s", o.id, o.customer)
	return d.send(ctx, "orders.changed", o, map[string]any{"id": o.id, "status": "CANCELLED"})
}

// send publishes an event with its own message id.
func (d *demo) send(ctx context.Context, subject string, o *order, event map[string]any) error {
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	_, err = sendEvent(ctx, d.c, subject, subject+"/"+o.id, data)
	return err
}

// unshipped counts the orders neither shipped nor cancelled.
func (d *demo) unshipped() int {
	n := 0
	for _, o := range d.orders {
		if !o.shipped && o.outcome != cancelled {
			n++
		}
	}
	return n
}

// summary prints a summary and the next steps.
func (d *demo) summary() {
	self, paint := os.Args[0], d.io.palette.paint
	d.progress(bold, "done: %d orders; deadman raised alerts for exactly the 3 that did not ship in time", len(d.orders))
	if d.io.output == asJSON {
		return
	}
	unshipped := d.orders[0].id
	fmt.Fprintf(d.io.out, `
  The job of %s is still pending. Next steps:

    %s
    %s
    %s   (resolves the alert)

  Your own rule: docs/getting-started.md

`,
		unshipped,
		paint(green, fmt.Sprintf("%s job get %s %s", self, sanitize(d.rule), unshipped)),
		paint(green, self+" alert list"),
		paint(green, fmt.Sprintf(`%s event send orders.shipped '{"id": "%s"}'`, self, unshipped)))
}

// sampleSituation is the situation of the example rules for the demo.
const sampleSituation = "orders"

// createSampleRule creates the sample rules if the node has no rules. It leaves a node with rules unchanged.
func (d *demo) createSampleRule(ctx context.Context) error {
	there, _, err := get[web.Page[web.Rule]](ctx, d.c, "/rules", url.Values{"limit": {"1"}})
	if err != nil || len(there.Items) > 0 {
		return err
	}
	all, err := examples.All()
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Situation != sampleSituation {
			continue
		}
		if _, err := d.c.request(ctx, http.MethodPost, "/rules", nil, []byte(e.Text), http.Header{"Content-Type": {"application/yaml"}}); err != nil {
			return fmt.Errorf("creating the sample rule %s: %w", e.Name, err)
		}
		d.progress(bold, "created the sample rule %s, because the node had no rules; to delete it: %s rule delete %s", e.Name, os.Args[0], e.Name)
	}
	return nil
}

// ruleAdvice returns the advice for a node with rules that do not fit the demo.
func (d *demo) ruleAdvice() string {
	return fmt.Sprintf("the demo requires the sample rule order-unshipped: create it at %s/new-rule?from=order-unshipped, "+
		"or use --url with a node without rules; the demo creates the rule there", d.c.node)
}
