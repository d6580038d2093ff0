package access_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// clock stands still until it is advanced.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.now.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.now.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.now.Add(int64(d)) }

// countingStore is a real store that counts queries and can be paused.
type countingStore struct {
	*store.Store
	requests atomic.Int64
	touched  atomic.Int64
	answer   func() // called after a token was read, before it is returned
	listed   func() // called after all tokens were read, before they are returned
}

func (w *countingStore) Tokens(ctx context.Context) ([]access.Token, error) {
	all, err := w.Store.Tokens(ctx)
	if w.listed != nil {
		w.listed()
	}
	return all, err
}

func (w *countingStore) TokenByHash(ctx context.Context, hash [32]byte) (access.Token, error) {
	w.requests.Add(1)
	t, err := w.Store.TokenByHash(ctx, hash)
	if w.answer != nil {
		w.answer()
	}
	return t, err
}

func (w *countingStore) TouchToken(ctx context.Context, id string, at time.Time) error {
	w.touched.Add(1)
	return w.Store.TouchToken(ctx, id, at)
}

// open opens a store in a folder until the test ends.
func open(t *testing.T, dir string) *countingStore {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{DataDir: dir, Shards: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &countingStore{Store: s}
}

func newTokens(t *testing.T) *access.Tokens {
	t.Helper()
	return access.NewTokens(open(t, storetest.DataDir(t)), newClock().Now)
}

func create(t *testing.T, k *access.Tokens, w access.TokenRequest) (access.Token, string) {
	t.Helper()
	token, secret, err := k.Create(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return token, secret
}

func checkDenied(t *testing.T, k *access.Tokens, secret string) {
	t.Helper()
	token, err := k.Authenticate(t.Context(), secret)
	if !errors.Is(err, access.ErrDenied) || token.ID != "" {
		t.Errorf("%q is %+v, %v; want ErrDenied", secret, token, err)
	}
	if err != nil && err.Error() != access.ErrDenied.Error() {
		t.Errorf("%q is denied with other words: %v", secret, err)
	}
}

func checkIdentified(t *testing.T, k *access.Tokens, secret, name string) {
	t.Helper()
	if token, err := k.Authenticate(t.Context(), secret); err != nil || token.Name != name {
		t.Errorf("%s is %+v, %v", name, token, err)
	}
}

func TestTokenIsCreated(t *testing.T) {
	c := newClock()
	c.advance(123) // stores keep microseconds
	s := open(t, storetest.DataDir(t))
	k := access.NewTokens(s, c.Now)
	ctx := access.As(t.Context(), access.Actor{Name: "alice", TokenID: "7", Addr: "10.0.0.1:5"})
	made, secret, err := k.Create(ctx, access.TokenRequest{Name: "ci", Scopes: scopesOf("events"), Prefix: "acme-*", Expires: 90 * futurejobs.Day})
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(secret, "dm_")); err != nil || len(raw) != 32 {
		t.Errorf("secret %q is not 32 bytes: %v", secret, err)
	}
	got, err := k.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made, got); diff != "" {
		t.Errorf("identified (-made +got):\n%s", diff)
	}
	now := c.Now().Truncate(time.Microsecond)
	if made.CreatedBy != "alice" || !made.CreatedAt.Equal(now) || !made.ExpiresAt.Equal(now.Add(90*futurejobs.Day)) || !made.LastUsedAt.IsZero() {
		t.Errorf("made %+v", made)
	}
	entries, next, err := k.Audit(t.Context(), access.AuditFilter{})
	if err != nil || next != "" || len(entries) != 1 {
		t.Fatalf("audit: %+v, %q, %v", entries, next, err)
	}
	want := access.AuditEntry{
		ID: entries[0].ID, At: entries[0].At, Actor: access.ActorOf(ctx), Action: "token.create", Object: "token/ci",
		Detail: "id " + made.ID + "; scopes events; rules acme-*; subjects none; publish none; sources none; handlers none; expires 2027-02-18T12:00:00Z",
	}
	if diff := cmp.Diff(want, entries[0]); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

func TestSecretsDiffer(t *testing.T) {
	k := newTokens(t)
	seen := make(map[string]bool)
	for i := range 50 {
		token, secret := create(t, k, newRequest(fmt.Sprint("t", i), "read"))
		if seen[secret] || seen[token.ID] {
			t.Fatalf("%+v is there twice", token)
		}
		seen[secret], seen[token.ID] = true, true
	}
}

// The files of the store do not reveal a secret.
func TestSecretsAreNotKept(t *testing.T) {
	dir := storetest.DataDir(t)
	k := access.NewTokens(open(t, dir), newClock().Now)
	token, secret := create(t, k, newRequest("ci", "admin"))
	checkIdentified(t, k, secret, "ci")
	raw, err := base64.RawURLEncoding.DecodeString(secret[3:])
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, store.DatabaseFile+"*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files: %v, %v", files, err)
	}
	var disk []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		disk = append(disk, b...)
	}
	if !bytes.Contains(disk, token.Hash[:]) {
		t.Error("the hash is not on the disk: nothing is tested")
	}
	if bytes.Contains(disk, []byte(secret[3:])) || bytes.Contains(disk, raw) {
		t.Error("the secret is on the disk")
	}
}

func TestDeadTokensAreDenied(t *testing.T) {
	c := newClock()
	s := open(t, storetest.DataDir(t))
	k := access.NewTokens(s, c.Now)
	_, good := create(t, k, newRequest("good", "read"))
	_, short := create(t, k, access.TokenRequest{Name: "short", Scopes: scopesOf("read"), Expires: time.Minute})
	_, gone := create(t, k, newRequest("gone", "read"))
	if err := k.Revoke(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	lastChanged := good[:len(good)-2] + "AA"
	for _, secret := range []string{
		"", "dm_", good[:len(good)-1], good + "x", good[3:], strings.ToUpper(good), lastChanged,
		" " + good, "dm_" + strings.Repeat("A", 43), strings.Repeat("x", 1<<20), "\x00", short, gone,
	} {
		requests := s.requests.Load()
		checkDenied(t, k, secret)
		checkDenied(t, k, secret) // the second denial takes the same path as the first
		if n := s.requests.Load() - requests; n != 2 {
			t.Errorf("%.20q: the store was queried %d times, want 2", secret, n)
		}
	}
	checkIdentified(t, k, good, "good")
}

// A cached token is not accepted after its expiry.
func TestTokenExpiresInTime(t *testing.T) {
	c := newClock()
	s := open(t, storetest.DataDir(t))
	k := access.NewTokens(s, c.Now)
	_, secret := create(t, k, access.TokenRequest{Name: "ci", Scopes: scopesOf("read"), Expires: time.Second})
	checkIdentified(t, k, secret, "ci")
	c.advance(time.Second - 1)
	checkIdentified(t, k, secret, "ci")
	c.advance(1)
	checkDenied(t, k, secret)
	if n := s.requests.Load(); n != 2 {
		t.Errorf("the store was queried %d times, want twice: what is denied goes the way of all", n)
	}
}

func TestTokensAreCached(t *testing.T) {
	c := newClock()
	s := open(t, storetest.DataDir(t))
	k := access.NewTokens(s, c.Now)
	_, secret := create(t, k, newRequest("ci", "read"))
	for range 1000 {
		checkIdentified(t, k, secret, "ci")
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("the store was queried %d times, want once", n)
	}
	c.advance(time.Second)
	checkIdentified(t, k, secret, "ci")
	if n := s.requests.Load(); n != 1 {
		t.Errorf("within seconds the store was queried %d times, want once", n)
	}
	c.advance(time.Second)
	checkIdentified(t, k, secret, "ci")
	if n := s.requests.Load(); n != 2 {
		t.Errorf("after seconds the store was queried %d times, want twice", n)
	}
	c.advance(-time.Hour) // a clock that is set back makes no entry fresh
	checkIdentified(t, k, secret, "ci")
	if n := s.requests.Load(); n != 3 {
		t.Errorf("after the clock went back the store was queried %d times, want three times", n)
	}
}

func TestMoreTokensThanAreRemembered(t *testing.T) {
	s := open(t, storetest.DataDir(t))
	k := access.NewTokens(s, newClock().Now)
	secrets := make([]string, 1500)
	for i := range secrets {
		_, secrets[i] = create(t, k, newRequest(fmt.Sprint("t", i), "read"))
	}
	for i, secret := range secrets {
		checkIdentified(t, k, secret, fmt.Sprint("t", i))
		checkIdentified(t, k, secret, fmt.Sprint("t", i)) // the newest is always cached
	}
	if n := s.requests.Load(); n != 1500 {
		t.Errorf("the store was queried %d times, want once for each", n)
	}
	checkIdentified(t, k, secrets[0], "t0")
	if n := s.requests.Load(); n != 1501 {
		t.Error("all are remembered: nothing is bounded")
	}
}

func TestUseIsNotedOnceMinute(t *testing.T) {
	c := newClock()
	s := open(t, storetest.DataDir(t))
	k, other := access.NewTokens(s, c.Now), access.NewTokens(s, c.Now)
	_, secret := create(t, k, newRequest("ci", "read"))
	first := c.Now()
	for range 59 {
		checkIdentified(t, k, secret, "ci")
		checkIdentified(t, other, secret, "ci")
		c.advance(time.Second)
	}
	if n := s.touched.Load(); n != 1 {
		t.Errorf("noted %d times in a minute, want once", n)
	}
	if got := onlyToken(t, k).LastUsedAt; !got.Equal(first) {
		t.Errorf("last used %s, want %s", got, first)
	}
	c.advance(time.Second)
	checkIdentified(t, k, secret, "ci")
	if got := onlyToken(t, k).LastUsedAt; s.touched.Load() != 2 || !got.Equal(c.Now()) {
		t.Errorf("noted %d times, last used %s, want twice and %s", s.touched.Load(), got, c.Now())
	}
}

// Concurrent uses without a cache record one use.
func TestUseIsNotedOnceByMany(t *testing.T) {
	s := open(t, storetest.DataDir(t))
	k := access.NewTokens(s, newClock().Now)
	_, secret := create(t, k, newRequest("ci", "read"))
	const many = 20
	var all sync.WaitGroup
	all.Add(many)
	s.answer = func() { // blocks until all have read
		all.Done()
		all.Wait()
	}
	var done sync.WaitGroup
	for range many {
		done.Go(func() { checkIdentified(t, k, secret, "ci") })
	}
	done.Wait()
	if s.requests.Load() != many || s.touched.Load() != 1 {
		t.Errorf("%d read and %d noted, want %d and 1", s.requests.Load(), s.touched.Load(), many)
	}
}

// A read-only database denies no token.
func TestUnrecordedTokenUse(t *testing.T) {
	s := open(t, storetest.DataDir(t))
	k := access.NewTokens(&readOnlyStore{s}, newClock().Now)
	_, secret := create(t, k, newRequest("ci", "read"))
	checkIdentified(t, k, secret, "ci")
	if got := onlyToken(t, k).LastUsedAt; !got.IsZero() {
		t.Errorf("it was noted: %s", got)
	}
}

// readOnlyStore is a store that fails to record uses.
type readOnlyStore struct{ *countingStore }

func (u *readOnlyStore) TouchToken(ctx context.Context, id string, at time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := u.countingStore.TouchToken(ctx, id, at); err != nil {
		return err
	}
	return errors.New("it was written")
}

func onlyToken(t *testing.T, k *access.Tokens) access.Token {
	t.Helper()
	tokens, err := k.List(t.Context())
	if err != nil || len(tokens) != 1 {
		t.Fatalf("%d tokens, %v, want one", len(tokens), err)
	}
	return tokens[0]
}

func TestRevocationIsAtOnceHereAndSoonElsewhere(t *testing.T) {
	c := newClock()
	s := open(t, storetest.DataDir(t))
	here, there := access.NewTokens(s, c.Now), access.NewTokens(s, c.Now)
	token, secret := create(t, here, newRequest("ci", "read"))
	checkIdentified(t, here, secret, "ci")
	checkIdentified(t, there, secret, "ci")
	if err := here.Revoke(t.Context(), token.ID); err != nil {
		t.Fatal(err)
	}
	checkDenied(t, here, secret)
	c.advance(2 * time.Second)
	checkDenied(t, there, secret)
}

// A token read before its revocation is not cached afterwards.
func TestRevocationWhileTokenIsRead(t *testing.T) {
	s := open(t, storetest.DataDir(t))
	k := access.NewTokens(s, newClock().Now)
	_, secret := create(t, k, newRequest("ci", "read"))
	s.answer = func() {
		s.answer = nil
		if err := k.Revoke(t.Context(), "ci"); err != nil {
			t.Error(err)
		}
	}
	checkIdentified(t, k, secret, "ci") // it was read before
	checkDenied(t, k, secret)
}

// The absence of tokens is not cached if one is created during the query.
func TestTokenCreatedDuringLookup(t *testing.T) {
	s := open(t, storetest.DataDir(t))
	k := access.NewTokens(s, newClock().Now)
	s.listed = func() {
		s.listed = nil
		create(t, k, newRequest("first", "admin"))
	}
	for _, want := range []bool{false, true} { // the first query preceded the creation
		if got, err := k.EverIssued(t.Context()); err != nil || got != want {
			t.Errorf("ever issued: %v, %v, want %v", got, err, want)
		}
	}
}

func TestOnlyLiveTokensAreRevoked(t *testing.T) {
	k := newTokens(t)
	token, _ := create(t, k, newRequest("ci", "read"))
	if err := k.Revoke(t.Context(), token.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{token.ID, "ci", "unknown", "", "a\x00b", "c%"} {
		err := k.Revoke(t.Context(), id)
		if !errors.Is(err, access.ErrNotFound) || !errors.Is(err, futurejobs.ErrNotFound) {
			t.Errorf("revoke %q: %v, want ErrNotFound", id, err)
		}
	}
	if err := k.Revoke(t.Context(), "ci"); err == nil || err.Error() != "revoke \"ci\": token not found, or revoked already; `deadman token list` shows all" {
		t.Errorf("revoke: %v", err)
	}
}

func TestGoverned(t *testing.T) {
	c := newClock()
	k := access.NewTokens(open(t, storetest.DataDir(t)), c.Now)
	is := func(want bool) {
		t.Helper()
		if got, err := k.HasTokens(t.Context()); err != nil || got != want {
			t.Errorf("governed: %v, %v, want %v", got, err, want)
		}
	}
	is(false)
	create(t, k, access.TokenRequest{Name: "narrow", Scopes: scopesOf("admin"), Prefix: "acme-*"})
	create(t, k, access.TokenRequest{Name: "ci", Scopes: scopesOf("read events rules")})
	is(false)
	create(t, k, access.TokenRequest{Name: "short", Scopes: scopesOf("admin"), Expires: time.Hour})
	is(true)
	c.advance(time.Hour)
	is(false)
	create(t, k, newRequest("short", "admin")) // the name is free again
	is(true)
	if err := k.Revoke(t.Context(), "short"); err != nil {
		t.Fatal(err)
	}
	is(false)
}

// A token that was revoked or has expired still counts as issued, regardless of its scopes.
func TestEndedTokenCountsAsIssued(t *testing.T) {
	for name, end := range map[string]func(*access.Tokens, *clock) error{
		"revoked": func(k *access.Tokens, _ *clock) error { return k.Revoke(t.Context(), "ci") },
		"expired": func(_ *access.Tokens, c *clock) error { c.advance(2 * time.Hour); return nil },
	} {
		c := newClock()
		k := access.NewTokens(open(t, storetest.DataDir(t)), c.Now)
		if got, err := k.EverIssued(t.Context()); err != nil || got {
			t.Errorf("%s: issued before any was: %v, %v", name, got, err)
		}
		create(t, k, access.TokenRequest{Name: "ci", Scopes: scopesOf("events"), Expires: time.Hour})
		if err := end(k, c); err != nil {
			t.Fatal(err)
		}
		if got, err := k.EverIssued(t.Context()); err != nil || !got {
			t.Errorf("%s: %v, %v, want true", name, got, err)
		}
		if got, err := k.HasTokens(t.Context()); err != nil || got {
			t.Errorf("%s: governed: %v, %v", name, got, err)
		}
	}
}

// A store failure is never treated as a denial.
func TestStoreThatFailsIsNotDenial(t *testing.T) {
	k := newTokens(t)
	_, secret := create(t, k, newRequest("ci", "read"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Authenticate(gone, secret); err == nil || errors.Is(err, access.ErrDenied) || !errors.Is(err, context.Canceled) {
		t.Errorf("identify: %v", err)
	}
	if _, err := k.HasTokens(gone); err == nil {
		t.Error("governed: no error")
	}
	if _, err := k.EverIssued(gone); err == nil {
		t.Error("ever issued: no error")
	}
	checkIdentified(t, k, secret, "ci")
}

// In any sequence of operations, exactly the live tokens are authenticated.
func TestAuthenticatesExactlyLiveTokens(t *testing.T) {
	s := open(t, storetest.DataDir(t))
	var round int
	rapid.Check(t, func(t *rapid.T) {
		round++
		c := newClock()
		k := access.NewTokens(s, c.Now)
		var secrets []string
		ends := make(map[string]time.Time) // zero: never
		pick := func() string {
			if len(secrets) == 0 {
				t.Skip("no token")
			}
			return rapid.SampledFrom(secrets).Draw(t, "token")
		}
		names := make(map[string]string)
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				w := newRequest(fmt.Sprintf("t%d-%d", round, len(secrets)), "read")
				w.Expires = time.Duration(rapid.IntRange(0, 20).Draw(t, "expires")) * time.Second
				token, secret, err := k.Create(context.Background(), w)
				if err != nil {
					t.Fatal(err)
				}
				secrets, names[secret], ends[secret] = append(secrets, secret), w.Name, token.ExpiresAt
			},
			"revoke": func(t *rapid.T) {
				secret := pick()
				if err := k.Revoke(context.Background(), names[secret]); err != nil && !errors.Is(err, access.ErrNotFound) {
					t.Fatal(err)
				}
				ends[secret] = time.Unix(0, 0)
			},
			"pass": func(t *rapid.T) { c.advance(time.Duration(rapid.IntRange(1, 9000).Draw(t, "ms")) * time.Millisecond) },
			"identify": func(t *rapid.T) {
				secret := pick()
				token, err := k.Authenticate(context.Background(), secret)
				live := ends[secret].IsZero() || c.Now().Before(ends[secret])
				if live != (err == nil) || live && token.Name != names[secret] || !live && !errors.Is(err, access.ErrDenied) {
					t.Fatalf("%s ends %s, now is %s: %+v, %v", names[secret], ends[secret], c.Now(), token, err)
				}
			},
		})
	})
}
