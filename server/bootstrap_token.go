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

// firstTokenName is the name of the token that a node creates to be reachable at all, and maxFirst the number of
// names it tries: a taken name is followed by -2, -3 and so on.
const (
	firstTokenName = "first"
	maxFirst       = 100
)

// setupAccess decides whether the node accepts requests without a token.
//
//  1. A node with --insecure does.
//  2. A node does if its settings make it reachable only from its own machine, its users log in only with tokens,
//     and its database never had a token. The web layer rejects requests to it that came through a proxy.
//  3. Any other node requires tokens. If no live token has full access, it creates a first token and hands it out
//     once.
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

// local reports whether the settings make the node reachable only from its own machine.
func (n *node) local(addr net.Addr) bool {
	return isLoopback(addr) && n.Login == "" && (n.PublicURL == "" || web.IsLoopbackURL(n.PublicURL))
}

// giveFirst creates a token with full access and hands it out once. If several nodes start at the same moment, one
// creates it; the others find its token.
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
		// Another node was faster and hands its token out, or a token with this name has fewer scopes.
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

// handOut outputs a first token, once only.
func (n *node) handOut(secret string, addr net.Addr) {
	login := n.publicURLOr("http://"+clientAddress(addr)) + "/login?token=" + secret
	if n.FirstToken == nil {
		n.log.Warn("this is the first token, and the only time that it is said", "token", secret, "login", login)
		return
	}
	n.FirstToken(secret, login)
}

// allowsAnonymous reports whether the node still accepts requests without a token: the first token ends that for
// good. While the token lookup fails, the node accepts none.
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
