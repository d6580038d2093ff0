package main

import (
	"fmt"

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
	outcome  orderOutcome
	shipped  bool
	received map[alerts.Status]int
}

// expects returns the number of expected alerts with a status: two firing ones if the order never ships, or one
// firing and one resolved if it ships late.
func (o *order) expects(s alerts.Status) int {
	switch {
	case o.outcome == never && s == alerts.Firing:
		return 2
	case o.outcome == late && (s == alerts.Firing || s == alerts.Resolved):
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
			outcome: f, received: make(map[alerts.Status]int),
		}
	}
	return orders
}
