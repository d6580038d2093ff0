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
	jobComes = 10 * time.Second // for the first order's job to be there
	demoTime = 45 * time.Second // for all of it; the steps come 10 and 20 s after an order
	nearLook = 30 * time.Second // a first look later than this is of another rule
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

// demo is one run of the orders.
type demo struct {
	p      *cli
	c      *client
	orders []*order
	byID   map[string]*order
	rule   string // that waits for them
}

func newDemo(p *cli, c *client) *demo {
	d := &demo{p: p, c: c, byID: make(map[string]*order)}
	d.orders = newOrders("demo-" + uuid.NewString()[:6])
	for _, o := range d.orders {
		d.byID[o.id] = o
	}
	return d
}

// run plays the orders, in this order:
//
//  1. give the node the sample rules, if it has none
//  2. listen for alerts, so that none is missed
//  3. place the first order, and make sure that a rule waits for it
//  4. place the others; ship and cancel those that are to be
//  5. wait for what is to be said, and ship the late one once it was complained about
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

// play does what is planned and hears what is said until nothing is missing of either.
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

// findRule looks for the job of an order that was just placed.
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

// watchAlerts takes in an alert about one of the orders.
func (d *demo) watchAlerts(ctx context.Context, h streamedAlert) error {
	o := d.byID[h.Key]
	if o == nil || (d.rule != "" && h.Rule != d.rule) {
		return nil // about somebody else's order
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

// missing is how many alerts are still to come.
func (d *demo) missing() int {
	n := 0
	for _, o := range d.orders {
		for _, s := range []alerts.Status{alerts.Firing, alerts.Resolved} {
			n += o.expects(s) - o.heard[s]
		}
	}
	return n
}

// gaveUp says what did not come.
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

// tell says what the demo does. With -o json the output is the alerts alone.
func (d *demo) tell(c colour, format string, args ...any) {
	w := d.p.out
	if d.p.output == asJSON {
		w = d.p.err
	}
	fmt.Fprintf(w, "%s  %s\n", d.p.palette.paint(dim, d.p.now().In(d.p.zone).Format("15:04:05")), d.p.palette.paint(c, sanitize(fmt.Sprintf(format, args...))))
}
