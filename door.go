package deadman

import (
	"context"
	"errors"
	"fmt"
	"net"

	"deadman/access"
	"deadman/store"
)

// firstToken is the name of the token that a node makes for itself to be reached at all.
const firstToken = "first"

// door finds out whether the node answers everybody. It does on loopback while there are no
// tokens, and where the settings say so. Beyond loopback it makes a first token if there is
// none, and hands it out once.
func (n *node) door(ctx context.Context, addr net.Addr) error {
	if n.server != nil && !n.server.Loopback() && !n.server.Guarded() {
		n.log.Warn("the NATS server in this process answers whoever reaches it: it was started with --insecure and without DEADMAN_NATS_TOKEN_FILE", "nats", n.server.ClientURL())
	}
	var some bool
	look := func() (err error) { some, err = n.keeper.Governed(ctx); return err }
	if err := n.persist(ctx, databaseGone, look, store.ErrUnavailable); err != nil {
		return fmt.Errorf("look for tokens: %w", err)
	}
	switch {
	case n.Insecure:
		n.open.Store(true)
		n.log.Warn("whoever reaches this node may do everything: it was started with --insecure", "http", addr.String())
		return nil
	case some:
		return nil
	case isLoopback(addr):
		n.open.Store(true)
		n.log.Info("whoever is on this machine may do everything; the first token ends that (deadman token create)")
		return nil
	}
	_, secret, err := n.keeper.Create(ctx, access.Wish{Name: firstToken, Scopes: []access.Scope{access.Admin}})
	if errors.Is(err, access.ErrExists) {
		return nil // another node was faster, and says it
	}
	if err != nil {
		return fmt.Errorf("make the first token: %w", err)
	}
	login := n.publicOr("http://"+reachable(addr)) + "/login?token=" + secret
	if n.FirstToken == nil {
		n.log.Warn("this is the first token, and the only time that it is said", "token", secret, "login", login)
		return nil
	}
	n.FirstToken(secret, login)
	return nil
}

// isOpen reports whether the node still answers everybody: the first token ends that, until
// the node starts again without a live one.
func (n *node) isOpen(ctx context.Context) bool {
	if !n.open.Load() || n.Insecure {
		return n.open.Load()
	}
	some, err := n.keeper.Governed(ctx)
	if err != nil {
		n.log.Debug("look for tokens", "err", err)
	}
	if some && n.open.Swap(false) {
		n.log.Info("there is a token now: nobody gets in without one")
	}
	return n.open.Load()
}

func (n *node) publicOr(address string) string {
	if n.PublicURL != "" {
		return n.PublicURL
	}
	return address
}
