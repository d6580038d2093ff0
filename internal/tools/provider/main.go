// Command provider is an OpenID provider for tests: that of github.com/zitadel/oidc, which is certified, with users who
// have groups. It listens on a free loopback port, prints its issuer on a line, and ends when its standard input is
// closed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// people maps users to groups. The password of a user is the name, and the groups are claims.
var people = map[string][]string{
	"ann": {"staff", "sre"},
	"bob": {"staff", "acme"},
	"eve": {"visitors"},
	"ned": {"sre"}, // his address is not verified
}

// The clients of the provider. The ID token of thin has only the required claims; the others are in the user info.
const (
	web    = "deadman"
	thin   = "deadman-thin"
	secret = "the secret of deadman"
)

func main() {
	redirects := flag.String("redirect", "", "redirect URIs of the clients, with commas between")
	flag.Parse()
	if err := serve(strings.Split(*redirects, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(redirects []string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	issuer := "http://" + listener.Addr().String()
	storage.RegisterClients(storage.WebClient(web, secret, redirects...), storage.WebClient(thin, secret, redirects...))
	handler := exampleop.SetupServer(issuer, store{storage.NewStorage(users{})}, slog.New(slog.DiscardHandler), true)
	handler.Get("/favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }) // browsers request it
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		_ = server.Close()
	}()
	if _, err := fmt.Println(issuer); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// users implements storage.UserStore.
type users struct{}

func (users) ExampleClientID() string { return storage.ServiceUserID }

func (users) GetUserByID(id string) *storage.User {
	name, ok := strings.CutPrefix(id, "id-of-")
	if _, known := people[name]; !ok || !known {
		return nil
	}
	return &storage.User{
		ID: id, Username: name, Password: name, FirstName: name, LastName: "Example", Email: name + "@example.org", EmailVerified: name != "ned",
	}
}

func (u users) GetUserByUsername(name string) *storage.User { return u.GetUserByID("id-of-" + name) }

// store is the storage of the library's example, extended with groups.
type store struct{ *storage.Storage }

func (s store) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	addGroups(info, token.GetSubject())
	return s.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
}

func (s store) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, subject, origin string) error {
	addGroups(info, subject)
	return s.Storage.SetUserinfoFromToken(ctx, info, tokenID, subject, origin)
}

func addGroups(info *oidc.UserInfo, subject string) {
	info.AppendClaims("groups", people[strings.TrimPrefix(subject, "id-of-")])
}

func (s store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{c, id != thin}, nil
}

// client is a client of the library's example.
type client struct {
	op.Client
	claims bool // its ID token has all claims
}

func (c client) IDTokenUserinfoClaimsAssertion() bool { return c.claims }

func (c client) IsScopeAllowed(scope string) bool {
	return slices.Contains([]string{"groups"}, scope) || c.Client.IsScopeAllowed(scope)
}
