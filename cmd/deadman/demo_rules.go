package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"deadman/examples"
	"deadman/web"
)

// sampleSituation is the situation of the example rules for the demo.
const sampleSituation = "orders"

// giveRules creates the sample rules if the node has no rules. It leaves a node with rules unchanged.
func (d *demo) giveRules(ctx context.Context) error {
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
		if _, err := d.c.ask(ctx, http.MethodPost, "/rules", nil, []byte(e.Text), http.Header{"Content-Type": {"application/yaml"}}); err != nil {
			return fmt.Errorf("the node has no rules, and does not take the sample rule %s: %w", e.Name, err)
		}
		d.tell(bold, "the node had no rules, and now has %s; to take it away again: %s rule delete %s", e.Name, os.Args[0], e.Name)
	}
	return nil
}

// otherRules returns the advice for a node whose rules do not fit the demo.
func (d *demo) otherRules() string {
	return fmt.Sprintf("the demo is made for the sample rule order-unshipped: save it as it is at %s/new-rule?from=order-unshipped, "+
		"or name a node without rules with --url, to which the demo gives that rule itself", d.c.node)
}
