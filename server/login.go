package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"deadman/internal/logins"
	"deadman/web"
)

// readLogin loads the login file and applies it. Changed grants take effect with each user's next request.
func (n *node) readLogin(context.Context) error {
	if n.Login == "" {
		return nil
	}
	config, err := logins.Load(n.Login, logins.Options{Env: n.Env, Now: time.Now})
	if err != nil {
		return fmt.Errorf("login: %w (--login names a file)", err)
	}
	if err := n.checkLogin(config); err != nil {
		return fmt.Errorf("login: %s: %w", n.Login, err)
	}
	n.useLogin(config)
	return nil
}

// prefixesOfPeople returns the prefixes that the login file grants.
func (n *node) prefixesOfPeople() []string {
	config := n.logins.Load()
	if config == nil {
		return nil
	}
	return config.Grants.Prefixes()
}

// checkLogin rejects a login file that conflicts with the settings.
func (n *node) checkLogin(config *logins.Config) error {
	if config.Header != nil && len(n.TrustedProxies) == 0 {
		return errors.New("it has people named by the header of a proxy, and no proxy is trusted; name the proxy with --trusted-proxies, or leave header out")
	}
	return nil
}

// useLogin applies a login configuration; nil: login with tokens only.
func (n *node) useLogin(config *logins.Config) {
	if before := n.logins.Swap(config); before != nil && before.OIDC != nil {
		before.OIDC.Close()
	}
}

// checkWayBack rejects a setup in which the login provider has no address to redirect back to, and warns of plain HTTP.
func (n *node) checkWayBack(addr net.Addr) error {
	config := n.logins.Load()
	switch {
	case config == nil || config.OIDC == nil:
	case n.PublicURL == "" && !isLoopback(addr):
		return fmt.Errorf("login: %s: the provider leads people back to this node, and its address is not known; set --public-url", n.Login)
	case n.PublicURL != "" && !web.IsHTTPS(n.PublicURL) && !web.IsLoopbackURL(n.PublicURL):
		n.log.Warn("people log in with a provider over plain http: who is on the way takes their sessions; put a proxy with TLS in front", "public_url", n.PublicURL)
	}
	return nil
}
