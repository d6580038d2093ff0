package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"deadman/alerts"
	"deadman/web"
)

const (
	jobComes = 10 * time.Second // for the first order's job to appear
	demoTime = 45 * time.Second // for the whole run; steps are due 10 and 20 s after an order
	nearLook = 30 * time.Second // a later first check belongs to another rule
	askAgain = 200 * time.Millisecond
)

func (p *cli) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Short: "Play orders of which some are never shipped, and show what is said",
		Long: `Plays a dozen orders against a running node: most ship in time, one is cancelled, one ships
late and two never. Then it waits for the alerts about them, which takes less than half a
minute. A node that has no rules is given the one that waits for orders; one that has rules
keeps them, and has to have that one among them.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.client()
			if err != nil {
				return err
			}
			return newDemo(p, c).run(cmd.Context())
		},
	}
	addURL(cmd.Flags(), p)
	return cmd
}

// demo is a run of the demo.
type demo struct {
	p      *cli
	c      *client
	orders []*order
	byID   map[string]*order
	rule   string // the rule for the orders
}

func newDemo(p *cli, c *client) *demo {
	d := &demo{p: p, c: c, byID: make(map[string]*order)}
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
	ctx, cancel := context.WithTimeout(ctx, demoTime)
	defer cancel()
	if err := d.giveRules(ctx); err != nil {
		return err
	}
	said, failed := d.listen(ctx)

	d.tell(bold, "placing %d orders; a rule waits for each to be shipped", len(d.orders))
	var no refusal
	if err := d.place(ctx, d.orders[0]); errors.As(err, &no) && no.Status < http.StatusInternalServerError {
		return fmt.Errorf("%w\n%s", err, d.otherRules())
	} else if err != nil {
		return err
	}
	if err := d.findRule(ctx, d.orders[0]); err != nil {
		return err
	}
	if err := d.play(ctx, said, failed); err != nil {
		return err
	}
	d.summary()
	return nil
}

// play runs the plan and receives alerts until both are complete.
func (d *demo) play(ctx context.Context, said <-chan streamedAlert, failed <-chan error) error {
	plan := d.plan()
	next := time.NewTimer(0)
	defer next.Stop()
	for len(plan) > 0 || d.missing() > 0 {
		select {
		case <-next.C:
			if len(plan) == 0 {
				d.tell(bold, "all placed; %s still out, now we wait", number(d.out(), "order"))
				continue
			}
			if err := plan[0].do(ctx); err != nil {
				return err
			}
			next.Reset(plan[0].pause)
			plan = plan[1:]
		case a := <-said:
			if err := d.watchAlerts(ctx, a); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return d.gaveUp(ctx)
		}
	}
	return nil
}

// listen follows the alerts in the background until ctx is done.
func (d *demo) listen(ctx context.Context) (<-chan streamedAlert, <-chan error) {
	said, failed := make(chan streamedAlert), make(chan error, 1)
	go func() {
		for h, err := range d.c.follow(ctx, catchUp, d.p.printTruncated) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case said <- h:
			case <-ctx.Done():
				return
			}
		}
	}()
	return said, failed
}

// findRule waits for the job of a placed order.
func (d *demo) findRule(ctx context.Context, o *order) error {
	ctx, cancel := context.WithTimeout(ctx, jobComes)
	defer cancel()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		page, _, err := get[web.Page[web.Job]](ctx, d.c, "/jobs", url.Values{"key": {o.id}})
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("no rule waits for orders: the event was taken in, and no job came of it\n%s", d.otherRules())
		case err != nil:
			return err
		case len(page.Items) > 0:
			return d.takeRule(page.Items[0])
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

func (d *demo) takeRule(j web.Job) error {
	d.rule = j.Rule
	if wait := j.NextCheckAt.Sub(d.p.now()); wait > nearLook {
		return fmt.Errorf("rule %s looks at an order only %s, and the demo waits %s\n%s", sanitize(j.Rule), web.Relative(j.NextCheckAt, d.p.now()), nearLook, d.otherRules())
	}
	d.tell(dim, "rule %s waits: the first look at order %s is %s", j.Rule, j.Key, web.Relative(j.NextCheckAt, d.p.now()))
	return nil
}

// watchAlerts handles an alert about an order of the demo.
func (d *demo) watchAlerts(ctx context.Context, h streamedAlert) error {
	o := d.byID[h.Key]
	if o == nil || (d.rule != "" && h.Rule != d.rule) {
		return nil // not an order of this demo
	}
	if err := d.p.showHeard(h); err != nil {
		return err
	}
	if o.expects(h.Status) <= o.heard[h.Status] {
		return fmt.Errorf("that was one alert too many about order %s, which is %s; please report it", o.id, o.fate)
	}
	o.heard[h.Status]++
	if o.fate == late && h.Status == alerts.Firing {
		return d.ship(ctx, o, "after all")
	}
	return nil
}

// missing counts the alerts still expected.
func (d *demo) missing() int {
	n := 0
	for _, o := range d.orders {
		for _, s := range []alerts.Status{alerts.Firing, alerts.Resolved} {
			n += o.expects(s) - o.heard[s]
		}
	}
	return n
}

// gaveUp returns the error that lists the missing alerts.
func (d *demo) gaveUp(ctx context.Context) error {
	if ctx.Err() != context.DeadlineExceeded {
		return ctx.Err()
	}
	said := ""
	for _, o := range d.orders {
		for _, s := range []alerts.Status{alerts.Firing, alerts.Resolved} {
			if n := o.expects(s) - o.heard[s]; n > 0 {
				said += fmt.Sprintf("\n  order %s (%s): %s, %s", o.id, o.fate, number(n, "alert"), s)
			}
		}
	}
	return fmt.Errorf("these alerts did not come within %s:%s\nlook at the node's log, and at %s/readyz", demoTime, said, d.c.node)
}

// tell prints the progress of the demo. With -o json it goes to stderr, because stdout has the alerts only.
func (d *demo) tell(c colour, format string, args ...any) {
	w := d.p.out
	if d.p.output == asJSON {
		w = d.p.err
	}
	fmt.Fprintf(w, "%s  %s\n", d.p.palette.paint(dim, d.p.now().In(d.p.zone).Format("15:04:05")), d.p.palette.paint(c, sanitize(fmt.Sprintf(format, args...))))
}
