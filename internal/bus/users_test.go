package bus_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

// everyUser lists the users with a file.
var everyUser = []string{bus.UserAdmin, bus.UserEvents, bus.UserAlerts, bus.UserConsumers, bus.UserAcks, bus.UserHandlers}

// newGuardedServer starts a server whose users have their secrets in a data folder.
func newGuardedServer(t *testing.T, data string, log *bustest.Log, change ...func(*bus.ServerOptions)) *bus.Server {
	t.Helper()
	o := bus.ServerOptions{Dir: filepath.Join(data, "nats"), Addr: "127.0.0.1:0", Users: filepath.Join(data, bus.UsersDir), Log: slog.New(slog.NewTextHandler(log, nil))}
	for _, c := range change {
		c(&o)
	}
	s, err := bus.StartServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestUsersLogIn checks that a server with users rejects all other clients, even on loopback, and counts them. The
// log gets few lines about that, and no secret.
func TestUsersLogIn(t *testing.T) {
	t.Parallel()
	data, log := bustest.Dir(t), &bustest.Log{}
	s := newGuardedServer(t, data, log)
	if !s.Guarded() {
		t.Error("the log claims that every client is accepted")
	}
	b := connect(t, s) // the node needs no file
	publishAndBind(t, b)
	for _, user := range everyUser {
		nc, err := nats.Connect(bustest.LogIn(t, data, s.ClientURL(), user))
		if err != nil {
			t.Errorf("%s: %v", user, err)
			continue
		}
		nc.Close()
	}
	secret := func(user string) string {
		data, err := os.ReadFile(filepath.Join(data, bus.UsersDir, user))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	strangers := map[string][]nats.Option{
		"no user": nil, "an empty user": {nats.UserInfo("", "")}, "the node": {nats.UserInfo("node", "")}, "an empty token": {nats.Token("")},
		"no secret": {nats.UserInfo(bus.UserAdmin, "")}, "a guess": {nats.UserInfo(bus.UserAdmin, "secret")},
		"another's secret": {nats.UserInfo(bus.UserAdmin, secret(bus.UserEvents))}, "a secret as token": {nats.Token(secret(bus.UserAdmin))},
		"a secret and more": {nats.UserInfo(bus.UserAdmin, secret(bus.UserAdmin)+"x")}, "a user that is none": {nats.UserInfo("root", secret(bus.UserAdmin))},
		"another case": {nats.UserInfo("Admin", secret(bus.UserAdmin))},
	}
	for name, how := range strangers {
		if nc, err := nats.Connect(s.ClientURL(), how...); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				nc.Close()
			}
		}
	}
	if logins, permissions := s.Refused(); logins != uint64(len(strangers)) || permissions != 0 {
		t.Errorf("%d logins and %d permissions were refused, want %d and none", logins, permissions, len(strangers))
	}
	if n := strings.Count(log.String(), "refused"); n == 0 || n > 5 {
		t.Errorf("the log has %d lines of refusals, want one a minute:\n%s", n, log)
	}
	for _, user := range everyUser {
		if strings.Contains(log.String(), secret(user)) {
			t.Errorf("the log has the secret of %s", user)
		}
	}
}

// publishAndBind checks that a connection has the node's permissions.
func publishAndBind(t *testing.T, b *bus.Bus) {
	t.Helper()
	bind(t, b, "orders.created")
	publish(t, b, "orders.created")
}

// TestTokenBesideUsers checks that a token grants all permissions beside the users.
func TestTokenBesideUsers(t *testing.T) {
	t.Parallel()
	data, file := bustest.Dir(t), write(t, t.TempDir(), "token", token)
	s := newGuardedServer(t, data, &bustest.Log{}, func(o *bus.ServerOptions) { o.TokenFile = file })
	if _, err := nats.Connect(s.ClientURL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without a token: %v", err)
	}
	for name, url := range map[string]string{
		"token": strings.Replace(s.ClientURL(), "://", "://"+token+"@", 1), "admin": bustest.LogIn(t, data, s.ClientURL(), bus.UserAdmin),
	} {
		stream, err := bustest.JetStream(t, url).CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}})
		if err == nil {
			err = stream.Purge(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSecretsOfUsers checks that secrets are readable by their owner only, survive restarts, and are created again
// after their removal. An invalid one prevents the start and changes nothing.
func TestSecretsOfUsers(t *testing.T) {
	t.Parallel()
	data := bustest.Dir(t)
	dir := filepath.Join(data, bus.UsersDir)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // it is to be closed
		t.Fatal(err)
	}
	read := func() (secrets map[string]string) {
		secrets = make(map[string]string)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			secrets[e.Name()] = string(text)
			if info, err := e.Info(); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("%s: mode %v, %v", e.Name(), info.Mode(), err)
			}
		}
		if info, err := os.Stat(dir); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
			t.Errorf("the folder: mode %v, %v", info.Mode(), err)
		}
		return secrets
	}
	newGuardedServer(t, data, &bustest.Log{}).Close()
	first := read()
	distinct := make(map[string]bool)
	for _, user := range everyUser {
		if distinct[first[user]] = true; len(strings.TrimSpace(first[user])) != 43 {
			t.Errorf("the secret of %s is %q", user, first[user])
		}
	}
	if len(first) != len(everyUser) || len(distinct) != len(everyUser) {
		t.Fatalf("there are %d files and %d secrets", len(first), len(distinct))
	}

	// One was removed, one was readable by all users, and one by a group.
	if err := os.Remove(filepath.Join(dir, bus.UserEvents)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, bus.UserAcks), 0o644); err != nil { //nolint:gosec // it is to be closed
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, bus.UserAlerts), 0o640); err != nil { //nolint:gosec // it is to be closed
		t.Fatal(err)
	}
	log := &bustest.Log{}
	newGuardedServer(t, data, log).Close()
	second := read()
	for _, user := range everyUser {
		changed := user == bus.UserEvents || user == bus.UserAcks && runtime.GOOS != "windows"
		if same := first[user] == second[user]; same == changed {
			t.Errorf("%s: the same secret: %t", user, same)
		}
	}
	if runtime.GOOS != "windows" {
		for wantText, user := range map[string]string{"another took its place": bus.UserAcks, "a group of this machine could read": bus.UserAlerts} {
			if line := regexp.MustCompile(".*"+wantText+".*").FindAllString(log.String(), -1); len(line) != 1 || !strings.Contains(line[0], filepath.Join(dir, user)) {
				t.Errorf("of %s the text is %s", user, log)
			}
		}
	}

	for _, bad := range []string{"", "\n", "short", "two words of a secret that is long"} {
		write(t, dir, bus.UserAlerts, bad)
		_, err := bus.StartServer(bus.ServerOptions{Dir: filepath.Join(data, "nats"), Addr: "127.0.0.1:0", Users: dir, Log: discardLog()})
		if !errors.Is(err, bus.ErrIdentity) || !strings.Contains(err.Error(), filepath.Join(dir, bus.UserAlerts)) || !strings.Contains(err.Error(), "remove the file") || bad != "" && strings.Contains(err.Error(), "two words") {
			t.Errorf("%q: %v", bad, err)
		}
		if got := read()[bus.UserAlerts]; got != bad {
			t.Errorf("%q became %q", bad, got)
		}
	}
}
