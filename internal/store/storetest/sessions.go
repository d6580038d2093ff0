package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"deadman/internal/access"
	"deadman/internal/store"
)

// session returns a new session of a token, created at the start of the fixture's slots.
func session(w *fixture, of access.Token) access.Session {
	w.t.Helper()
	id := must[uuid.UUID](w.t)(uuid.NewV7())
	var hash [32]byte
	copy(hash[8:], id[:])
	return access.Session{
		ID: id.String(), TokenID: of.ID, TokenName: of.Name, Hash: hash, Addr: "192.0.2.7", UserAgent: "Firefox",
		CreatedAt: w.at, LastUsedAt: w.at, ExpiresAt: w.at.Add(time.Hour),
	}
}

// beginSession stores a session of a token.
func beginSession(w *fixture, of access.Token) access.Session {
	w.t.Helper()
	s := session(w, of)
	w.must(w.InsertSession(w.ctx(), s))
	return s
}

func sessionsAreKept(t *testing.T, w *fixture) {
	token := insert(w, "ann")
	first := beginSession(w, token)
	odd := session(w, token)
	odd.Addr, odd.UserAgent = "a\\\x00\xff", "\x00☃"
	odd.LastUsedAt, odd.ExpiresAt = w.at.Add(time.Microsecond), w.at.Add(2*time.Microsecond)
	w.must(w.InsertSession(w.ctx(), odd))
	if diff := cmp.Diff([]access.Session{odd, first}, must[[]access.Session](t)(w.Sessions(w.ctx()))); diff != "" { // newest first
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	for _, want := range []access.Session{first, odd} {
		if diff := cmp.Diff(want, must[access.Session](t)(w.SessionByHash(w.ctx(), want.Hash))); diff != "" {
			t.Errorf("by its hash (-want +got):\n%s", diff)
		}
	}
	if got, err := w.SessionByHash(w.ctx(), token.Hash); !errors.Is(err, access.ErrNoSession) || got.ID != "" {
		t.Errorf("by no session's hash: %+v, %v, want ErrNoSession", got, err)
	}
	if diff := cmp.Diff(token, must[access.Token](t)(w.TokenByID(w.ctx(), token.ID))); diff != "" {
		t.Errorf("its token (-want +got):\n%s", diff)
	}
	for _, id := range []string{"", "ann", "a\x00\xff"} {
		if _, err := w.TokenByID(w.ctx(), id); !errors.Is(err, access.ErrNotFound) {
			t.Errorf("token %q: %v, want ErrNotFound", id, err)
		}
	}
	entries := auditEntries(w, access.AuditFilter{Action: "session.create"})
	if len(entries) != 2 || entries[1].Object != "session/"+first.ID || entries[1].Detail != "token ann" {
		t.Errorf("the audit has %+v", entries)
	}
}

func sessionsAreEnded(t *testing.T, w *fixture) {
	token := insert(w, "ann")
	ends, stays := beginSession(w, token), beginSession(w, token)
	w.must(w.EndSession(w.ctx(), ends.ID))
	for _, id := range []string{ends.ID, token.ID, "", "%", "a\x00\xff"} {
		if err := w.EndSession(w.ctx(), id); !errors.Is(err, access.ErrNoSession) {
			t.Errorf("end %q: %v, want ErrNoSession", id, err)
		}
	}
	if diff := cmp.Diff([]access.Session{stays}, must[[]access.Session](t)(w.Sessions(w.ctx()))); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	entries := auditEntries(w, access.AuditFilter{Action: "session.revoke"})
	if len(entries) != 1 || entries[0].Object != "session/"+ends.ID || entries[0].Detail != "token id "+token.ID {
		t.Errorf("the audit has %+v", entries)
	}
}

func sessionsEndWithTheirToken(t *testing.T, w *fixture) {
	gone, other := insert(w, "gone"), insert(w, "other")
	of, stays := beginSession(w, gone), beginSession(w, other)
	w.must(w.RevokeToken(w.ctx(), "gone", w.at))
	if diff := cmp.Diff([]access.Session{stays}, must[[]access.Session](t)(w.Sessions(w.ctx()))); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if _, err := w.SessionByHash(w.ctx(), of.Hash); !errors.Is(err, access.ErrNoSession) {
		t.Errorf("a session of a revoked token: %v, want ErrNoSession", err)
	}
	if err := w.InsertSession(w.ctx(), session(w, gone)); !errors.Is(err, access.ErrNotFound) {
		t.Errorf("a new session of a revoked token: %v, want ErrNotFound", err)
	}
	if err := w.InsertSession(w.ctx(), session(w, access.Token{ID: "x"})); !errors.Is(err, access.ErrNotFound) {
		t.Errorf("a session of no token: %v, want ErrNotFound", err)
	}
	if n := len(auditEntries(w, access.AuditFilter{Action: "session.create"})); n != 2 {
		t.Errorf("the audit has %d new sessions, want 2", n)
	}
	// An expired token frees its name, and its sessions do not belong to the next token.
	old := newToken(w, "again")
	old.ExpiresAt = w.at.Add(time.Hour)
	w.must(w.InsertToken(w.ctx(), old))
	beginSession(w, old)
	next := newToken(w, "again")
	next.CreatedAt = old.ExpiresAt
	w.must(w.InsertToken(w.ctx(), next))
	if diff := cmp.Diff([]access.Session{stays}, must[[]access.Session](t)(w.Sessions(w.ctx()))); diff != "" {
		t.Errorf("left after the name was given up (-want +got):\n%s", diff)
	}
}

func sessionsAreTouchedForward(t *testing.T, w *fixture) {
	s := beginSession(w, insert(w, "ann"))
	for _, touch := range []struct{ at, want time.Time }{
		{w.at.Add(time.Minute), w.at.Add(time.Minute)},
		{w.at.Add(time.Second), w.at.Add(time.Minute)},
	} {
		w.must(w.TouchSession(w.ctx(), s.ID, touch.at))
		if got := must[access.Session](t)(w.SessionByHash(w.ctx(), s.Hash)); !got.LastUsedAt.Equal(touch.want) {
			t.Errorf("touched at %s: last used %s, want %s", touch.at, got.LastUsedAt, touch.want)
		}
	}
	w.must(w.TouchSession(w.ctx(), "ended", w.at)) // it was ended meanwhile
}

func sessionsAreForgotten(t *testing.T, w *fixture) {
	token := insert(w, "ann")
	now := must[time.Time](t)(w.Now(w.ctx()))
	live, idle, expired := session(w, token), session(w, token), session(w, token)
	for _, s := range []*access.Session{&live, &idle, &expired} {
		s.LastUsedAt, s.ExpiresAt = now, now.Add(time.Hour)
	}
	idle.LastUsedAt = now.Add(-access.SessionIdle)
	expired.ExpiresAt = now
	for _, s := range []access.Session{live, idle, expired} {
		w.must(w.InsertSession(w.ctx(), s))
	}
	must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{}))
	if diff := cmp.Diff([]access.Session{live}, must[[]access.Session](t)(w.Sessions(w.ctx()))); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// sessionsOfUsersAreKept checks that a session of a person needs no token and ends only by its own revocation.
func sessionsOfUsersAreKept(t *testing.T, w *fixture) {
	token := insert(w, "ann")
	of := beginSession(w, token)
	ann := session(w, access.Token{})
	ann.Person = &access.Person{By: access.ByOIDC, Name: `a\nn "☃"`, Issuer: "https://id.example.org", Subject: "1", Groups: []string{"sre", "a,b"}}
	bare := session(w, access.Token{})
	bare.Person = &access.Person{By: access.ByOIDC, Name: "ann"}
	for _, s := range []access.Session{ann, bare} {
		w.must(w.InsertSession(w.ctx(), s))
		if diff := cmp.Diff(s, must[access.Session](t)(w.SessionByHash(w.ctx(), s.Hash))); diff != "" {
			t.Errorf("by its hash (-want +got):\n%s", diff)
		}
	}
	w.must(w.RevokeToken(w.ctx(), token.ID, w.at))
	if diff := cmp.Diff([]access.Session{bare, ann}, must[[]access.Session](t)(w.Sessions(w.ctx()))); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	if _, err := w.SessionByHash(w.ctx(), of.Hash); !errors.Is(err, access.ErrNoSession) {
		t.Errorf("the session of the revoked token: %v", err)
	}
	w.must(w.TouchSession(w.ctx(), ann.ID, w.at.Add(time.Minute)))
	w.must(w.EndSession(w.ctx(), ann.ID))
	if _, err := w.SessionByHash(w.ctx(), ann.Hash); !errors.Is(err, access.ErrNoSession) {
		t.Errorf("a session that was ended: %v", err)
	}
	for action, want := range map[string]string{
		"session.create": "id oidc:https://id.example.org#1; groups sre, a,b", "session.revoke": ann.Person.String(),
	} {
		entries := auditEntries(w, access.AuditFilter{Action: action, Object: "session/" + ann.ID})
		if len(entries) != 1 || entries[0].Detail != want {
			t.Errorf("%s: the audit says %+v, want %q", action, entries, want)
		}
	}
}

// sessionsAreBounded checks that a login beyond the limit ends the least recently used session of the same token or
// person, and no other.
func sessionsAreBounded(t *testing.T, w *fixture) {
	const most = access.MaxSessions
	ann, bob := insert(w, "ann"), insert(w, "bob")
	carol := &access.Person{By: access.ByOIDC, Name: "carol", Issuer: "https://id.example.org", Subject: "1"}
	dave := &access.Person{By: access.ByOIDC, Name: "carol", Issuer: "https://id.example.org", Subject: "2"}
	var others []access.Session
	enter := func(of access.Token, p *access.Person, used time.Time) access.Session {
		s := session(w, of)
		s.Person, s.LastUsedAt = p, used
		w.must(w.InsertSession(w.ctx(), s))
		return s
	}
	others = append(others, enter(bob, nil, w.at.Add(-time.Hour)), enter(access.Token{}, dave, w.at.Add(-time.Hour)))
	for _, holder := range []struct {
		token  access.Token
		person *access.Person
	}{{ann, nil}, {access.Token{}, carol}} {
		used, idle := enter(holder.token, holder.person, w.at.Add(time.Minute)), enter(holder.token, holder.person, w.at.Add(-time.Minute))
		for range most - 2 {
			enter(holder.token, holder.person, w.at)
		}
		if _, err := w.SessionByHash(w.ctx(), idle.Hash); err != nil {
			t.Errorf("a session within the limit: %v", err)
		}
		last := enter(holder.token, holder.person, w.at.Add(-time.Hour)) // by a node whose clock is behind
		if _, err := w.SessionByHash(w.ctx(), idle.Hash); !errors.Is(err, access.ErrNoSession) {
			t.Errorf("the least recently used session beyond the limit: %v, want ErrNoSession", err)
		}
		for _, s := range append(others, used, last) {
			if _, err := w.SessionByHash(w.ctx(), s.Hash); err != nil {
				t.Errorf("session %+v: %v", s, err)
			}
		}
		entries := auditEntries(w, access.AuditFilter{Action: "session.create", Object: "session/" + last.ID})
		if want := "; ended 1 beyond the limit of 100 sessions"; len(entries) != 1 || !strings.HasSuffix(entries[0].Detail, want) {
			t.Errorf("the audit has %+v, want %q", entries, want)
		}
	}
	if all := must[[]access.Session](t)(w.Sessions(w.ctx())); len(all) != 2*most+len(others) {
		t.Errorf("%d sessions are left", len(all))
	}
}
