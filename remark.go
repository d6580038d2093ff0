package deadman

import (
	"context"

	"deadman/alerts"
)

// remark says something that the node has to say about itself, once however many nodes and
// tries there are.
func (n *node) remark(ctx context.Context, r alerts.Remark) error {
	a, said, err := n.store.Announce(ctx, r)
	if said {
		n.witness.Alerted(a)
	}
	return err
}
