package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"deadman/alerts"
)

// orderOutcome is the fate of an order.
type orderOutcome string

const (
	inTime    orderOutcome = "shipped in time"
	cancelled orderOutcome = "cancelled"
	late      orderOutcome = "shipped late"
	never     orderOutcome = "never shipped"
)

// order is an order of the demo.
type order struct {
	id       string
	customer string
	total    float64
	fate     orderOutcome
	shipped  bool
	heard    map[alerts.Status]int
}

// expects returns the number of expected alerts with a status: two firing ones if the order never ships, or one
// firing and one resolved if it ships late.
func (o *order) expects(s alerts.Status) int {
	switch {
	case o.fate == never && s == alerts.Firing:
		return 2
	case o.fate == late && (s == alerts.Firing || s == alerts.Resolved):
		return 1
	}
	return 0
}

// newOrders returns the orders. Those with alerts come first, to keep the wait short.
func newOrders(prefix string) []*order {
	fates := []orderOutcome{never, late, never, inTime, inTime, cancelled, inTime, inTime, inTime, inTime, inTime, inTime}
	customers := []string{"Ada", "Grace", "Edsger", "Barbara", "Donald", "Frances", "Tony", "Margaret", "Niklaus", "Radia", "Leslie", "Karen"}
	orders := make([]*order, len(fates))
	for i, f := range fates {
		orders[i] = &order{
			id: fmt.Sprintf("%s-%02d", prefix, i+1), customer: customers[i], total: 19.9 + float64(i*i)*3.35,
			fate: f, heard: make(map[alerts.Status]int),
		}
	}
	return orders
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
		switch o.fate {
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
	d.tell(normal, "order %s placed by %s, %.2f", o.id, o.customer, o.total)
	return d.send(ctx, "orders.created", o, map[string]any{
		"id": o.id, "customer": o.customer, "total": o.total, "placed_at": d.p.now().UTC().Format(time.RFC3339Nano),
	})
}

func (d *demo) ship(ctx context.Context, o *order, how string) error {
	d.tell(green, "order %s shipped %s", o.id, how)
	o.shipped = true
	return d.send(ctx, "orders.shipped", o, map[string]any{"id": o.id})
}

func (d *demo) cancel(ctx context.Context, o *order) error {
	d.tell(blue, "order %s cancelled by %s", o.id, o.customer)
	return d.send(ctx, "orders.changed", o, map[string]any{"id": o.id, "status": "CANCELLED"})
}

// send publishes an event with its own message id.
func (d *demo) send(ctx context.Context, subject string, o *order, event map[string]any) error {
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	_, err = d.c.sendEvent(ctx, subject, subject+"/"+o.id, data)
	return err
}

// out counts the orders neither shipped nor cancelled.
func (d *demo) out() int {
	n := 0
	for _, o := range d.orders {
		if !o.shipped && o.fate != cancelled {
			n++
		}
	}
	return n
}

// summary prints a summary and the next steps.
func (d *demo) summary() {
	self, paint := os.Args[0], d.p.palette.paint
	d.tell(bold, "done: %d orders, and deadman spoke up about exactly the 3 that did not ship in time", len(d.orders))
	if d.p.output == asJSON {
		return
	}
	unshipped := d.orders[0].id
	fmt.Fprintf(d.p.out, `
  %s is still watched. What next?

    %s
    %s
    %s   (a resolved alert follows)

  Your own rule: docs/getting-started.md

`,
		unshipped,
		paint(green, fmt.Sprintf("%s job get %s %s", self, sanitize(d.rule), unshipped)),
		paint(green, self+" alert list"),
		paint(green, fmt.Sprintf(`%s event send orders.shipped '{"id": "%s"}'`, self, unshipped)))
}
