package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"deadman/internal/access"
)

// newToken returns a new read token, created at the start of the fixture's slots.
func newToken(w *fixture, name string) access.Token {
	w.t.Helper()
	id := must[uuid.UUID](w.t)(uuid.NewV7())
	var hash [32]byte
	copy(hash[16:], id[:])
	return access.Token{
		ID: id.String(), Name: name, Scopes: []access.Scope{access.Read}, Hash: hash,
		CreatedAt: w.at, CreatedBy: "alice",
	}
}

// insert stores a token of that name.
func insert(w *fixture, name string) access.Token {
	w.t.Helper()
	t := newToken(w, name)
	w.must(w.InsertToken(w.ctx(), t))
	return t
}

// tokenAudit returns the audit entries about tokens, oldest first, as "action object".
func tokenAudit(w *fixture) []string {
	w.t.Helper()
	var actions []string
	for _, e := range auditEntries(w, access.AuditFilter{Object: "token/*"}) {
		actions = append(actions, e.Action+" "+e.Object)
	}
	slices.Reverse(actions)
	return actions
}

func tokensAreKept(t *testing.T, w *fixture) {
	plain := insert(w, "plain")
	full := newToken(w, "full")
	full.Scopes = []access.Scope{access.Read, access.Events, access.Rules, access.Admin}
	full.Prefix, full.CreatedBy = "acme-", "a\\\x00\xff"
	full.CreatedAt = w.at.Add(time.Microsecond)
	full.Given = access.Bounds{Subjects: []string{"acme.>", "ü.*"}, Sources: []string{}}
	full.ExpiresAt, full.LastUsedAt = w.at.Add(3*time.Microsecond), w.at.Add(2*time.Microsecond)
	w.must(w.InsertToken(w.ctx(), full))

	tokens := must[[]access.Token](t)(w.Tokens(w.ctx()))
	if diff := cmp.Diff([]access.Token{full, plain}, tokens); diff != "" { // newest first
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	for _, want := range []access.Token{plain, full} {
		got := must[access.Token](t)(w.TokenByHash(w.ctx(), want.Hash))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by its hash (-want +got):\n%s", diff)
		}
	}
	if got, err := w.TokenByHash(w.ctx(), [32]byte{1}); !errors.Is(err, access.ErrNotFound) || got.ID != "" {
		t.Errorf("by no token's hash: %+v, %v, want ErrNotFound", got, err)
	}
	entries := auditEntries(w, access.AuditFilter{Object: "token/*"})
	want := "id " + full.ID + "; scopes read, events, rules, admin; rules acme-*; subjects acme.>, ü.*; publish none; sources none; handlers none; expires " + full.ExpiresAt.Format(time.RFC3339)
	if len(entries) != 2 || entries[0].Detail != want || entries[1].Detail != "id "+plain.ID+"; scopes read; never expires" {
		t.Errorf("the audit has %+v", entries)
	}
}

func liveTokensHaveNames(t *testing.T, w *fixture) {
	expired, revoked, live := newToken(w, "expired"), newToken(w, "revoked"), newToken(w, "live")
	expired.ExpiresAt, live.ExpiresAt = w.at.Add(time.Hour), w.at.Add(time.Hour+time.Second)
	for _, token := range []access.Token{expired, revoked, live} {
		w.must(w.InsertToken(w.ctx(), token))
	}
	w.must(w.RevokeToken(w.ctx(), "revoked", w.at))
	if got := must[[]string](t)(w.LiveTokenNames(w.ctx(), w.at.Add(time.Hour))); !slices.Equal(got, []string{"live"}) {
		t.Errorf("%q are live, want the third alone", got)
	}
}

func tokenNamesAreUnique(t *testing.T, w *fixture) {
	first := insert(w, "ci")
	if err := w.InsertToken(w.ctx(), newToken(w, "ci")); !errors.Is(err, access.ErrExists) {
		t.Fatalf("a second of the name: %v, want ErrExists", err)
	}
	if got := must[[]access.Token](t)(w.Tokens(w.ctx())); len(got) != 1 || got[0].ID != first.ID {
		t.Errorf("tokens: %+v", got)
	}
	if diff := cmp.Diff([]string{"token.create token/ci"}, tokenAudit(w)); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	w.must(w.RevokeToken(w.ctx(), first.ID, w.at))
	insert(w, "ci") // a revoked one frees its name
	insert(w, "CI") // names are case-sensitive
}

func expiredTokenNamesAreReusable(t *testing.T, w *fixture) {
	old := newToken(w, "ci")
	old.ExpiresAt = w.at.Add(time.Hour)
	w.must(w.InsertToken(w.ctx(), old))
	next := newToken(w, "ci")
	next.CreatedAt = old.ExpiresAt.Add(-time.Microsecond)
	if err := w.InsertToken(w.ctx(), next); !errors.Is(err, access.ErrExists) {
		t.Fatalf("just before it expires: %v, want ErrExists", err)
	}
	next.CreatedAt = old.ExpiresAt
	w.must(w.InsertToken(w.ctx(), next))
	got := must[access.Token](t)(w.TokenByHash(w.ctx(), old.Hash))
	if s := got.Status(next.CreatedAt); s != "expired" {
		t.Errorf("the old one is %s: %+v", s, got)
	}
	w.must(w.RevokeToken(w.ctx(), "ci", next.CreatedAt))
	if got := must[access.Token](t)(w.TokenByHash(w.ctx(), next.Hash)); got.RevokedAt.IsZero() {
		t.Error("the name revoked another token than the new one")
	}
}

func concurrentTokensCreateOne(t *testing.T, w *fixture) {
	const many = 8
	errs := make([]error, many)
	var done sync.WaitGroup
	for i := range errs {
		token := newToken(w, "first")
		done.Go(func() { errs[i] = w.InsertToken(w.ctx(), token) })
	}
	done.Wait()
	made := 0
	for _, err := range errs {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, access.ErrExists):
			t.Errorf("raced: %v", err)
		}
	}
	if made != 1 || len(tokenAudit(w)) != 1 {
		t.Errorf("%d made, the audit has %v, want one", made, tokenAudit(w))
	}
}

func tokensAreRevoked(t *testing.T, w *fixture) {
	byID, byName, other := insert(w, "one"), insert(w, "two"), insert(w, "three")
	w.must(w.RevokeToken(w.ctx(), byID.ID, w.at.Add(time.Hour)))
	w.must(w.RevokeToken(w.ctx(), "two", w.at.Add(2*time.Hour)))
	for _, id := range []string{byID.ID, "one", "two", "four", "", "t%", "a\x00\xff"} {
		if err := w.RevokeToken(w.ctx(), id, w.at); !errors.Is(err, access.ErrNotFound) {
			t.Errorf("revoke %q: %v, want ErrNotFound", id, err)
		}
	}
	for hash, want := range map[[32]byte]time.Time{byID.Hash: w.at.Add(time.Hour), byName.Hash: w.at.Add(2 * time.Hour), other.Hash: {}} {
		if got := must[access.Token](t)(w.TokenByHash(w.ctx(), hash)); !got.RevokedAt.Equal(want) {
			t.Errorf("%s is revoked at %s, want %s", got.Name, got.RevokedAt, want)
		}
	}
	want := []string{
		"token.create token/one", "token.create token/two", "token.create token/three",
		"token.revoke token/one", "token.revoke token/two",
	}
	if diff := cmp.Diff(want, tokenAudit(w)); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	if got := auditEntries(w, access.AuditFilter{Action: "token.revoke", Limit: 1}); got[1].Detail != "id "+byID.ID {
		t.Errorf("the audit has %+v", got)
	}
}

// countingTokens is a store that counts the calls of Tokens.
type countingTokens struct {
	*fixture
	times int
}

func (a *countingTokens) Tokens(ctx context.Context) ([]access.Token, error) {
	a.times++
	return a.fixture.Tokens(ctx)
}

// tokensApplyOnEveryNode checks two nodes that are open because no token was ever created, and that ask for one with
// each request. A token that one of them creates closes that one at once and the other within seconds; revoking the
// token opens neither.
func tokensApplyOnEveryNode(t *testing.T, w *fixture) {
	now, s := w.at, &countingTokens{fixture: w}
	here := access.NewTokens(s, func() time.Time { return now })
	there := access.NewTokens(s, func() time.Time { return now })
	issued := func(k *access.Tokens, want bool) {
		t.Helper()
		if got := must[bool](t)(k.EverIssued(w.ctx())); got != want {
			t.Errorf("ever issued: %v at %s, want %v", got, now, want)
		}
	}
	governed := func(k *access.Tokens, want bool) {
		t.Helper()
		if got := must[bool](t)(k.HasTokens(w.ctx())); got != want {
			t.Errorf("governed: %v at %s, want %v", got, now, want)
		}
	}
	for range 100 {
		issued(here, false)
		issued(there, false)
	}
	if s.times != 2 {
		t.Errorf("the store was queried %d times, want once by each", s.times)
	}
	_, _, err := here.Create(w.ctx(), access.TokenRequest{Name: "first", Scopes: []access.Scope{access.Admin}})
	w.must(err)
	issued(here, true)
	governed(here, true)
	now = now.Add(5 * time.Second)
	issued(there, true)
	governed(there, true)
	w.must(here.Revoke(w.ctx(), "first"))
	for _, k := range []*access.Tokens{here, there} {
		issued(k, true)
		governed(k, false)
	}
}

func tokensAreTouchedForward(t *testing.T, w *fixture) {
	token := insert(w, "ci")
	for _, touch := range []struct{ at, want time.Time }{
		{w.at, w.at},
		{w.at.Add(time.Minute), w.at.Add(time.Minute)},
		{w.at.Add(time.Second), w.at.Add(time.Minute)},
	} {
		w.must(w.TouchToken(w.ctx(), token.ID, touch.at))
		if got := must[access.Token](t)(w.TokenByHash(w.ctx(), token.Hash)); !got.LastUsedAt.Equal(touch.want) {
			t.Errorf("touched at %s: last used %s, want %s", touch.at, got.LastUsedAt, touch.want)
		}
	}
	w.must(w.TouchToken(w.ctx(), "pruned", w.at)) // it was pruned meanwhile
	if n := len(tokenAudit(w)); n != 1 {
		t.Errorf("a use is audited: %d entries", n)
	}
}
