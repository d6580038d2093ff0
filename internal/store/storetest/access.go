package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	futurejobs "deadman/future_jobs"
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
	var deeds []string
	for _, e := range auditEntries(w, access.AuditFilter{Object: "token/*"}) {
		deeds = append(deeds, e.Action+" "+e.Object)
	}
	slices.Reverse(deeds)
	return deeds
}

// auditEntries reads the audit log to its end.
func auditEntries(w *fixture, f access.AuditFilter) (entries []access.AuditEntry) {
	w.t.Helper()
	for {
		page, next, err := w.Audit(w.ctx(), f)
		w.must(err)
		entries = append(entries, page...)
		if next == "" {
			return entries
		}
		f.Cursor = next
	}
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
		t.Errorf("the audit says %+v", entries)
	}
}

func tokensHaveNamesOfTheirOwn(t *testing.T, w *fixture) {
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

func tokensLoseTheirNamesWhenTheyExpire(t *testing.T, w *fixture) {
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

func tokensAreRacedOnce(t *testing.T, w *fixture) {
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
		t.Errorf("the audit says %+v", got)
	}
}

// asked is a store that counts the calls of Tokens.
type asked struct {
	*fixture
	times int
}

func (a *asked) Tokens(ctx context.Context) ([]access.Token, error) {
	a.times++
	return a.fixture.Tokens(ctx)
}

// tokensGovernEveryNode checks two nodes that are open because no token was ever created, and that ask for one with
// each request. A token that one of them creates closes that one at once and the other within seconds; revoking the
// token opens neither.
func tokensGovernEveryNode(t *testing.T, w *fixture) {
	now, s := w.at, &asked{fixture: w}
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
		t.Errorf("the store was asked %d times, want once by each", s.times)
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

// as returns a context of an actor.
func as(w *fixture, a access.Actor) context.Context { return access.As(w.ctx(), a) }

func auditSaysWho(t *testing.T, w *fixture) {
	before := must[time.Time](t)(w.Now(w.ctx()))
	odd := access.Actor{Name: "a\\\x00\xff☃", TokenID: "7", Addr: "[::1]:80"}
	w.must(w.InsertToken(as(w, odd), newToken(w, "ci")))
	w.must(w.RevokeToken(w.ctx(), "ci", w.at))
	entries := auditEntries(w, access.AuditFilter{Object: "token/ci"})
	if len(entries) != 2 {
		t.Fatalf("%d entries, want 2", len(entries))
	}
	if entries[1].Actor != odd || entries[0].Actor != (access.Actor{Name: access.NodeItself}) {
		t.Errorf("done by %+v, then by %+v", entries[1].Actor, entries[0].Actor)
	}
	after := must[time.Time](t)(w.Now(w.ctx()))
	for _, e := range entries { // the database's time, and not the caller's
		if e.At.Before(before) || e.At.After(after) {
			t.Errorf("entry at %s, want within %s and %s", e.At, before, after)
		}
	}
	if entries[0].ID <= entries[1].ID {
		t.Errorf("ids %d, then %d", entries[1].ID, entries[0].ID)
	}
}

func auditIsFiltered(t *testing.T, w *fixture) {
	for i, name := range []string{"acme-1", "acme-2", "acme_3", "Acme-4", "acme%5", "acme\u2603"} {
		actor := access.Actor{Name: "alice"}
		if i%2 == 1 {
			actor.Name = "file:shop"
		}
		w.must(w.InsertToken(as(w, actor), newToken(w, name)))
	}
	w.must(w.RevokeToken(as(w, access.Actor{Name: "alan"}), "acme-1", w.at))
	all := auditEntries(w, access.AuditFilter{Object: "token/*"}) // newest first
	for _, c := range []struct {
		f    access.AuditFilter
		want string // the indexes in all
	}{
		{access.AuditFilter{Object: "token/acme-1"}, "0 6"},
		{access.AuditFilter{Object: "token/acme-*"}, "0 5 6"},
		{access.AuditFilter{Object: "token/acme_*"}, "4"},
		{access.AuditFilter{Object: "token/acme%*"}, "2"},
		{access.AuditFilter{Object: "token/acme"}, ""},
		{access.AuditFilter{Object: "token/acm*"}, "0 1 2 4 5 6"},
		{access.AuditFilter{Object: "token/acme*"}, "0 1 2 4 5 6"},
		{access.AuditFilter{Object: "*oken/acme-1"}, ""},
		{access.AuditFilter{Object: "token/*", Actor: "alice"}, "2 4 6"},
		{access.AuditFilter{Object: "token/*", Actor: "al*"}, "0 2 4 6"},
		{access.AuditFilter{Object: "token/*", Actor: "file:*"}, "1 3 5"},
		{access.AuditFilter{Action: "token.revoke"}, "0"},
		{access.AuditFilter{Action: "token.*"}, "0 1 2 3 4 5 6"},
		{access.AuditFilter{Action: "token.*", Actor: "alice", Object: "token/acme-*"}, "6"},
		{access.AuditFilter{Action: "*", Object: "token/*", Actor: "*"}, "0 1 2 3 4 5 6"},
		{access.AuditFilter{Object: "token/\x00\xff*"}, ""},
		{access.AuditFilter{Object: "token/*", After: all[3].At}, places(all, func(e access.AuditEntry) bool { return !e.At.Before(all[3].At) })},
		{access.AuditFilter{Object: "token/*", Before: all[3].At}, places(all, func(e access.AuditEntry) bool { return e.At.Before(all[3].At) })},
		{access.AuditFilter{Object: "token/*", Before: all[6].At}, ""},
	} {
		for _, limit := range []int{1, 2, 0} {
			c.f.Limit = limit
			ids := make(map[int64]bool)
			for _, e := range auditEntries(w, c.f) {
				ids[e.ID] = true
			}
			if got := places(all, func(e access.AuditEntry) bool { return ids[e.ID] }); got != c.want || len(ids) != len(strings.Fields(c.want)) {
				t.Errorf("%+v: %q of %d, want %q", c.f, got, len(ids), c.want)
			}
		}
	}
}

// places returns the indexes of the wanted entries in a list.
func places(entries []access.AuditEntry, wanted func(access.AuditEntry) bool) string {
	var at []string
	for i, e := range entries {
		if wanted(e) {
			at = append(at, fmt.Sprint(i))
		}
	}
	return strings.Join(at, " ")
}

func auditIsPaged(t *testing.T, w *fixture) {
	for i := range 60 {
		insert(w, fmt.Sprint("t", i))
	}
	whole := auditEntries(w, access.AuditFilter{Object: "token/*", Limit: 500})
	if len(whole) != 60 || whole[0].Object != "token/t59" || whole[59].Object != "token/t0" {
		t.Fatalf("%d entries, want 60, newest first", len(whole))
	}
	for _, limit := range []int{1, 7, 60} {
		if diff := cmp.Diff(whole, auditEntries(w, access.AuditFilter{Object: "token/*", Limit: limit})); diff != "" {
			t.Errorf("in pages of %d (-whole +pages):\n%s", limit, diff)
		}
	}
	for limit, want := range map[int]int{1: 1, 59: 59, 61: 60, 0: 50} {
		if page, _, err := w.Audit(w.ctx(), access.AuditFilter{Object: "token/*", Limit: limit}); err != nil || len(page) != want {
			t.Errorf("%d entries in a page of %d, %v, want %d", len(page), limit, err, want)
		}
	}
	f := access.AuditFilter{Object: "token/*"}
	_, next, err := w.Audit(w.ctx(), f)
	w.must(err)
	insert(w, "later") // new entries do not appear on the remaining pages
	f.Cursor = next
	if diff := cmp.Diff(whole[50:], auditEntries(w, f)); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
	many(w, 2)
	jobs := must[futurejobs.Page[futurejobs.ListedJob]](t)(w.Jobs(w.ctx(), futurejobs.Filter{Limit: 1}))
	for _, cursor := range []string{"nonsense", "!", "e30", jobs.Next} {
		if _, _, err := w.Audit(w.ctx(), access.AuditFilter{Cursor: cursor}); !errors.Is(err, futurejobs.ErrBadCursor) {
			t.Errorf("from %q: %v, want ErrBadCursor", cursor, err)
		}
	}
}

func auditIsPruned(t *testing.T, w *fixture) {
	// Tokens end by the access package's time; entries have the database's time.
	now := must[time.Time](t)(w.Now(w.ctx()))
	expired, revoked, live := newToken(w, "expired"), newToken(w, "revoked"), newToken(w, "live")
	expired.ExpiresAt, live.ExpiresAt = now.Add(-2*time.Hour), now.Add(2*futurejobs.Day)
	for _, token := range []access.Token{expired, revoked, live} {
		w.must(w.InsertToken(w.ctx(), token))
	}
	w.must(w.RevokeToken(w.ctx(), "revoked", now.Add(-time.Minute)))
	left := func(before time.Time, tokens string, deeds int) {
		t.Helper()
		entries := len(auditEntries(w, access.AuditFilter{}))
		pruned := must[int64](t)(w.PruneAudit(w.ctx(), before))
		rest := len(auditEntries(w, access.AuditFilter{}))
		if int(pruned) != entries-rest || len(tokenAudit(w)) != deeds {
			t.Errorf("pruned %d of %d entries, %d left, %d about tokens", pruned, entries, rest, len(tokenAudit(w)))
		}
		names := keysOf(must[[]access.Token](t)(w.Tokens(w.ctx())), func(t access.Token) string { return t.Name })
		slices.Sort(names)
		if got := strings.Join(names, " "); got != tokens {
			t.Errorf("tokens left: %s, want %s", got, tokens)
		}
	}
	left(now.Add(-3*time.Hour), "expired live revoked", 4)
	left(now.Add(-time.Hour), "live revoked", 4)
	left(now.Add(futurejobs.Day), "live", 0)
	w.must(w.RevokeToken(w.ctx(), "live", now))
	must[int64](t)(w.PruneAudit(w.ctx(), now.Add(3*futurejobs.Day)))
	if got := must[[]access.Token](t)(w.Tokens(w.ctx())); len(got) != 1 || got[0].Name != "live" {
		t.Errorf("of the tokens, all of which ended, %v is left, want the newest", got)
	}
	insert(w, "next")
	if got := tokenAudit(w); len(got) != 1 || got[0] != "token.create token/next" {
		t.Errorf("the audit goes on with %v", got)
	}
}
