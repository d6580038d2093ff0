package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

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

// accessGate decides whether the node accepts requests without a token.
type accessGate struct {
	tokens     *access.Tokens
	insecure   bool // all requests are accepted
	hasLogin   bool // users log in with passwords or a provider, too
	publicURL  string
	firstToken func(secret, login string) // receives the first token; nil: the log does
	log        *slog.Logger

	open atomic.Bool // requests without a token have full access
}

// setup decides whether the node accepts requests without a token.
//
//  1. A node with --insecure does.
//  2. A node does if its settings make it reachable only from its own machine, its users log in only with tokens,
//     and its database never had a token. The web layer rejects requests to it that came through a proxy.
//  3. Any other node requires tokens. If no live token has full access, it creates a first token and hands it out
//     once.
func (g *accessGate) setup(ctx context.Context, addr net.Addr) error {
	if g.insecure {
		g.open.Store(true)
		g.log.Warn("every client that reaches this node has full access: it was started with --insecure", "http", addr.String())
		return nil
	}
	var issued, governed bool
	load := func() (err error) {
		if issued, err = g.tokens.EverIssued(ctx); err == nil {
			governed, err = g.tokens.HasTokens(ctx)
		}
		return err
	}
	if err := retryWhile(ctx, g.log, msgDatabaseLost, load, store.ErrUnavailable); err != nil {
		return fmt.Errorf("find tokens: %w", err)
	}
	switch {
	case governed:
		return nil
	case !issued && g.local(addr):
		g.open.Store(true)
		g.log.Info("every user of this machine has full access; the first token ends that (deadman token create NAME --scope admin)")
		return nil
	}
	return g.giveFirst(ctx, addr)
}

// local reports whether the settings make the node reachable only from its own machine.
func (g *accessGate) local(addr net.Addr) bool {
	return isLoopback(addr) && !g.hasLogin && (g.publicURL == "" || web.IsLoopbackURL(g.publicURL))
}

// giveFirst creates a token with full access and hands it out once. If several nodes start at the same moment, one
// creates it; the others find its token.
func (g *accessGate) giveFirst(ctx context.Context, addr net.Addr) error {
	name := firstTokenName
	for i := 2; ; i++ {
		_, secret, err := g.tokens.Create(ctx, access.TokenRequest{Name: name, Scopes: []access.Scope{access.Admin}})
		if err == nil {
			g.handOut(secret, addr)
			return nil
		}
		if !errors.Is(err, access.ErrExists) || i > maxFirst {
			return fmt.Errorf("make the first token: %w", err)
		}
		// Another node was faster and hands its token out, or a token with this name has fewer scopes.
		governed, err := g.tokens.HasTokens(ctx)
		if err != nil {
			return fmt.Errorf("find tokens: %w", err)
		}
		if governed {
			return nil
		}
		name = fmt.Sprintf("%s-%d", firstTokenName, i)
	}
}

// handOut outputs a first token, once only.
func (g *accessGate) handOut(secret string, addr net.Addr) {
	login := g.publicURLOr("http://"+clientAddress(addr)) + "/login?token=" + secret
	if g.firstToken == nil {
		g.log.Warn("this is the first token; it is shown only once", "token", secret, "login", login)
		return
	}
	g.firstToken(secret, login)
}

// allowsAnonymous reports whether the node still accepts requests without a token: the first token ends that for
// good. If the token lookup fails, it returns the error: the request is not answered without a token, and a token would
// not help.
func (g *accessGate) allowsAnonymous(ctx context.Context) (bool, error) {
	if !g.open.Load() || g.insecure {
		return g.open.Load(), nil
	}
	issued, err := g.tokens.EverIssued(ctx)
	if err != nil {
		return false, fmt.Errorf("find tokens: %w", err)
	}
	if issued && g.open.Swap(false) {
		g.log.Info("the first token was created; anonymous access is closed")
	}
	return g.open.Load(), nil
}

func (g *accessGate) publicURLOr(address string) string {
	if g.publicURL != "" {
		return g.publicURL
	}
	return address
}
