package server

import (
	"context"
	"errors"
	"fmt"
	"net"

	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/web"
)

// firstToken is the name of the token that a node makes for itself to be reached at all, and
// maxFirst how many names it tries: one that is taken goes on with -2, -3 and so on.
const (
	firstTokenName = "first"
	maxFirst       = 100
)

// setupAccess decides whether the node answers everybody without a token.
//
//  1. A node with --insecure does.
//  2. A node does that is reached on its own machine alone, as far as its settings say, where people
//     log in with tokens alone, and in whose database there never was a token. The web layer refuses a request to it that came
//     through a proxy.
//  3. Any other node is closed. Where no live token may do everything, it makes a first token,
//     and hands it out once.
func (n *node) setupAccess(ctx context.Context, addr net.Addr) error {
	if n.server != nil && !n.server.Loopback() && !n.server.Guarded() {
		n.log.Warn("the NATS server in this process answers whoever reaches it: it was started with --insecure and without DEADMAN_NATS_TOKEN_FILE", "nats", n.server.ClientURL())
	}
	if err := n.checkWayBack(addr); err != nil {
		return err
	}
	if n.Insecure {
		n.open.Store(true)
		n.log.Warn("whoever reaches this node may do everything: it was started with --insecure", "http", addr.String())
		return nil
	}
	var issued, governed bool
	look := func() (err error) {
		if issued, err = n.keeper.EverIssued(ctx); err == nil {
			governed, err = n.keeper.HasTokens(ctx)
		}
		return err
	}
	if err := n.retryWhile(ctx, msgDatabaseLost, look, store.ErrUnavailable); err != nil {
		return fmt.Errorf("look for tokens: %w", err)
	}
	switch {
	case governed:
		return nil
	case !issued && n.local(addr):
		n.open.Store(true)
		n.log.Info("whoever is on this machine may do everything; the first token ends that for good (deadman token create NAME --scope admin)")
		return nil
	}
	return n.giveFirst(ctx, addr)
}

// local reports whether the settings say of no way to the node but that on its own machine.
func (n *node) local(addr net.Addr) bool {
	return isLoopback(addr) && n.Login == "" && (n.PublicURL == "" || web.IsLoopbackURL(n.PublicURL))
}

// giveFirst makes a token that may do everything, and hands it out once. Of several nodes that
// start at the same moment, one does: the others find its token.
func (n *node) giveFirst(ctx context.Context, addr net.Addr) error {
	name := firstTokenName
	for i := 2; ; i++ {
		_, secret, err := n.keeper.Create(ctx, access.TokenRequest{Name: name, Scopes: []access.Scope{access.Admin}})
		if err == nil {
			n.handOut(secret, addr)
			return nil
		}
		if !errors.Is(err, access.ErrExists) || i > maxFirst {
			return fmt.Errorf("make the first token: %w", err)
		}
		// Another node was faster, and says it; or a token of this name may do less.
		governed, err := n.keeper.HasTokens(ctx)
		if err != nil {
			return fmt.Errorf("look for tokens: %w", err)
		}
		if governed {
			return nil
		}
		name = fmt.Sprintf("%s-%d", firstTokenName, i)
	}
}

// handOut says a first token, the only time that it is said.
func (n *node) handOut(secret string, addr net.Addr) {
	login := n.publicURLOr("http://"+clientAddress(addr)) + "/login?token=" + secret
	if n.FirstToken == nil {
		n.log.Warn("this is the first token, and the only time that it is said", "token", secret, "login", login)
		return
	}
	n.FirstToken(secret, login)
}

// allowsAnonymous reports whether the node still answers everybody: the first token ends that for good. A
// node that cannot find out whether there is one answers nobody without a token meanwhile.
func (n *node) allowsAnonymous(ctx context.Context) bool {
	if !n.open.Load() || n.Insecure {
		return n.open.Load()
	}
	issued, err := n.keeper.EverIssued(ctx)
	if err != nil {
		n.log.Debug("look for tokens", "err", err)
		return false
	}
	if issued && n.open.Swap(false) {
		n.log.Info("there is a token now: nobody gets in without one")
	}
	return n.open.Load()
}

func (n *node) publicURLOr(address string) string {
	if n.PublicURL != "" {
		return n.PublicURL
	}
	return address
}
