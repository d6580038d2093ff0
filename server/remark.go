package server

import (
	"context"

	"deadman/alerts"
)

// remark says something that the node has to say about itself, once however many nodes and
// tries there are.
func (n *node) remark(ctx context.Context, r alerts.Remark) error {
	return n.said(n.store.Announce(ctx, r))
}

// said tells the witness of what was written.
func (n *node) said(a alerts.Alert, said bool, err error) error {
	if said {
		n.witness.Alerted(a)
	}
	return err
}
