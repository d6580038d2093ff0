package server

import (
	"context"

	"deadman/alerts"
)

// announce says something that the node has to say about itself, once however many nodes and
// tries there are.
func (n *node) announce(ctx context.Context, r alerts.SystemAlert) error {
	return n.observeAlert(n.store.WriteSystemAlert(ctx, r))
}

// observeAlert tells the witness of what was written.
func (n *node) observeAlert(a alerts.Alert, observeAlert bool, err error) error {
	if observeAlert {
		n.witness.Alerted(a)
	}
	return err
}
