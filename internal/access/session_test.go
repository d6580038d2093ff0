package access_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store/storetest"
)

func logIn(t *testing.T, k *access.Tokens, secret string) (access.Session, string) {
	t.Helper()
	s, sessionSecret, err := k.Login(t.Context(), secret, "192.0.2.7", "Firefox")
	if err != nil {
		t.Fatal(err)
	}
	return s, sessionSecret
}

func checkResumes(t *testing.T, k *access.Tokens, secret, name string) {
	t.Helper()
	if s, token, err := k.Resume(t.Context(), secret); err != nil || token.Name != name || s.TokenName != name {
		t.Errorf("the session is %+v of %+v, %v; want that of %s", s, token, err, name)
	}
}

func checkExpired(t *testing.T, k *access.Tokens, secret string) {
	t.Helper()
	if s, token, err := k.Resume(t.Context(), secret); !errors.Is(err, access.ErrDenied) || s.ID != "" || token.ID != "" {
		t.Errorf("the session is %+v of %+v, %v; want ErrDenied", s, token, err)
	}
}

func TestSessionHasPermissionsOfItsToken(t *testing.T) {
	c := newClock()
	k := access.NewTokens(open(t, storetest.DataDir(t)), c.Now)
	token, secret := create(t, k, newRequest("ann", "read"))
	s, sessionSecret := logIn(t, k, secret)
	if s.TokenID != token.ID || !s.CreatedAt.Equal(c.Now()) || s.ExpiresAt.Sub(s.CreatedAt) != access.SessionMost || s.EndsAt().Sub(s.CreatedAt) != access.SessionIdle {
		t.Errorf("%+v", s)
	}
	checkResumes(t, k, sessionSecret, "ann")
	// A session's secret is not usable as a token, nor a token's as a session.
	checkDenied(t, k, sessionSecret)
	checkExpired(t, k, secret)
	checkExpired(t, k, "")
	if _, _, err := k.Login(t.Context(), sessionSecret, "", ""); !errors.Is(err, access.ErrDenied) {
		t.Errorf("a session logs in: %v", err)
	}
	entries, _, err := k.Audit(t.Context(), access.AuditFilter{Object: "session/" + s.ID})
	if err != nil || len(entries) != 1 || entries[0].Action != "session.create" || entries[0].Actor != (access.Actor{Name: "ann", TokenID: token.ID, Addr: "192.0.2.7"}) {
		t.Errorf("the audit has %+v, %v", entries, err)
	}
}

// A session ends 12 hours after its last use, and after 30 days regardless of use.
func TestSessionEndsInTime(t *testing.T) {
	c := newClock()
	k := access.NewTokens(open(t, storetest.DataDir(t)), c.Now)
	_, secret := create(t, k, newRequest("ann", "read"))
	_, idle := logIn(t, k, secret)
	_, used := logIn(t, k, secret)
	end := c.Now().Add(access.SessionMost)
	c.advance(access.SessionIdle - 1)
	checkResumes(t, k, used, "ann")
	c.advance(1)
	checkExpired(t, k, idle)
	for c.Now().Before(end.Add(-access.SessionIdle)) {
		c.advance(access.SessionIdle - time.Minute)
		checkResumes(t, k, used, "ann")
	}
	c.advance(end.Sub(c.Now()) - 1)
	checkResumes(t, k, used, "ann")
	c.advance(1)
	checkExpired(t, k, used)
	if all, err := k.Sessions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("listed are %+v, %v", all, err)
	}
}

// A session ends no later than its token.
func TestSessionEndsWithItsToken(t *testing.T) {
	c := newClock()
	s := open(t, storetest.DataDir(t))
	here, there := access.NewTokens(s, c.Now), access.NewTokens(s, c.Now)
	_, short := create(t, here, access.TokenRequest{Name: "short", Scopes: scopesOf("read"), Expires: time.Hour})
	made, expires := logIn(t, here, short)
	if made.ExpiresAt.Sub(made.CreatedAt) != time.Hour {
		t.Errorf("the session lives until %s", made.ExpiresAt)
	}
	_, secret := create(t, here, newRequest("ann", "read"))
	_, revoked := logIn(t, here, secret)
	for _, k := range []*access.Tokens{here, there} {
		checkResumes(t, k, expires, "short")
		checkResumes(t, k, revoked, "ann")
	}
	if err := here.Revoke(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	checkExpired(t, here, revoked)
	c.advance(2 * time.Second)
	checkExpired(t, there, revoked)
	checkResumes(t, there, expires, "short")
	c.advance(time.Hour - 2*time.Second)
	checkExpired(t, here, expires)
	checkExpired(t, there, expires)
	if _, _, err := here.Login(t.Context(), short, "", ""); !errors.Is(err, access.ErrDenied) {
		t.Errorf("an expired token logs in: %v", err)
	}
}

func TestSessionIsEndedHereAtOnceAndSoonElsewhere(t *testing.T) {
	c := newClock()
	s := open(t, storetest.DataDir(t))
	here, there := access.NewTokens(s, c.Now), access.NewTokens(s, c.Now)
	_, secret := create(t, here, newRequest("ann", "read"))
	ends, ended := logIn(t, here, secret)
	_, other := logIn(t, here, secret)
	checkResumes(t, here, ended, "ann")
	checkResumes(t, there, ended, "ann")
	if err := here.EndSession(t.Context(), ends.ID); err != nil {
		t.Fatal(err)
	}
	checkExpired(t, here, ended)
	c.advance(2 * time.Second)
	checkExpired(t, there, ended)
	checkResumes(t, there, other, "ann")
	for _, id := range []string{ends.ID, "", "a\x00b", "%"} {
		if err := here.EndSession(t.Context(), id); !errors.Is(err, access.ErrNoSession) || !errors.Is(err, futurejobs.ErrNotFound) {
			t.Errorf("end %q: %v, want ErrNoSession", id, err)
		}
	}
}

// A token revoked during its login leaves no session.
func TestRevocationWhileTokenLogsIn(t *testing.T) {
	s := open(t, storetest.DataDir(t))
	k, other := access.NewTokens(s, newClock().Now), access.NewTokens(s.Store, newClock().Now)
	_, secret := create(t, k, newRequest("ann", "read"))
	s.answer = func() {
		s.answer = nil
		if err := other.Revoke(t.Context(), "ann"); err != nil {
			t.Error(err)
		}
	}
	if made, _, err := k.Login(t.Context(), secret, "", ""); !errors.Is(err, access.ErrDenied) || made.ID != "" {
		t.Errorf("it made %+v, %v", made, err)
	}
}

func TestNameOfBrowserIsShortened(t *testing.T) {
	k := newTokens(t)
	_, secret := create(t, k, newRequest("ann", "read"))
	for given, want := range map[string]string{
		"Mozilla/5.0 (X11)": "Mozilla/5.0 (X11)", "": "", "a\x00b\xffc\u202ed\ne": "abcde",
		strings.Repeat("x", 1000): strings.Repeat("x", 200) + "…", strings.Repeat("x", 199) + "éé": strings.Repeat("x", 199) + "…",
	} {
		s, _, err := k.Login(t.Context(), secret, "", given)
		if err != nil || s.UserAgent != want {
			t.Errorf("%.30q is %q, %v", given, s.UserAgent, err)
		}
	}
}

// A recently valid secret is known without a store query, until it is denied.
func TestRecentlyValidSecretIsCached(t *testing.T) {
	c := newClock()
	k := access.NewTokens(open(t, storetest.DataDir(t)), c.Now)
	_, secret := create(t, k, newRequest("ann", "read"))
	checkKnown := func(secret string, want bool) {
		t.Helper()
		if got := k.IsKnown(secret); got != want {
			t.Errorf("known: %v, want %v", got, want)
		}
	}
	checkKnown(secret, false)
	_, sessionSecret := logIn(t, k, secret)
	checkResumes(t, k, sessionSecret, "ann")
	c.advance(time.Hour)
	create(t, k, newRequest("other", "read"))
	checkKnown(secret, true)
	checkKnown(sessionSecret, true)
	if err := k.Revoke(context.WithoutCancel(t.Context()), "ann"); err != nil {
		t.Fatal(err)
	}
	checkDenied(t, k, secret)
	checkExpired(t, k, sessionSecret)
	checkKnown(secret, false)
	checkKnown(sessionSecret, false)
	checkKnown("dm_x", false)
}
