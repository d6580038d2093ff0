package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"deadman/internal/access"
	"deadman/internal/logins"
	"deadman/web"
)

// loginFile is the operator's file about the login of users.
type loginFile struct {
	path      string // empty: users log in with tokens only
	env       func(name string) string
	proxies   []netip.Prefix
	publicURL string
	log       *slog.Logger

	current atomic.Pointer[logins.Config] // nil: login with tokens only
}

// read loads the login file and applies it. Changed grants take effect with each user's next request.
func (l *loginFile) read(context.Context) error {
	if l.path == "" {
		return nil
	}
	config, err := logins.Load(l.path, logins.Options{Env: l.env, Now: time.Now})
	if err != nil {
		return fmt.Errorf("login: %w (--login names a file)", err)
	}
	if err := l.check(config); err != nil {
		return fmt.Errorf("login: %s: %w", l.path, err)
	}
	l.use(config)
	return nil
}

// grants returns the grants of the login file.
func (l *loginFile) grants() access.Grants {
	config := l.current.Load()
	if config == nil {
		return nil
	}
	return config.Grants
}

// check rejects a login file that conflicts with the settings.
func (l *loginFile) check(config *logins.Config) error {
	if config.Header != nil && len(l.proxies) == 0 {
		return errors.New("it has people named by the header of a proxy, and no proxy is trusted; name the proxy with --trusted-proxies, or leave header out")
	}
	return nil
}

// use applies a login configuration; nil: login with tokens only.
func (l *loginFile) use(config *logins.Config) {
	if before := l.current.Swap(config); before != nil && before.OIDC != nil {
		before.OIDC.Close()
	}
}

// checkWayBack rejects a setup in which the login provider has no address to redirect back to, and warns of plain HTTP.
func (l *loginFile) checkWayBack(addr net.Addr) error {
	config := l.current.Load()
	switch {
	case config == nil || config.OIDC == nil:
	case l.publicURL == "" && !isLoopback(addr):
		return fmt.Errorf("login: %s: the provider leads people back to this node, and its address is not known; set --public-url", l.path)
	case l.publicURL != "" && !web.IsHTTPS(l.publicURL) && !web.IsLoopbackURL(l.publicURL):
		l.log.Warn("people log in with a provider over plain http: who is on the way takes their sessions; put a proxy with TLS in front", "public_url", l.publicURL)
	}
	return nil
}
