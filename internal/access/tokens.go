package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	futurejobs "deadman/future_jobs"
)

var (
	// ErrDenied means that a secret is not that of a live token.
	ErrDenied = errors.New("the token is unknown, expired or revoked; `deadman token create` makes one")
	// ErrNotFound means that there is no such token. It is futurejobs.ErrNotFound, too.
	ErrNotFound = fmt.Errorf("token %w, or revoked already; `deadman token list` shows all", futurejobs.ErrNotFound)
	// ErrExists means that a live token has the name, or one that looks like it.
	ErrExists = errors.New("a token of this name is in use; take another name, or revoke that one first")
)

// Store keeps tokens, sessions and the audit.
type Store interface {
	SessionStore
	// Tokens returns all tokens, newest first, which is by their ids. Once there was one, the
	// newest is always there.
	Tokens(ctx context.Context) ([]Token, error)
	// TokenByHash returns the token of a secret's hash, dead or alive, or ErrNotFound.
	TokenByHash(ctx context.Context, hash [32]byte) (Token, error)
	// InsertToken keeps a new token and audits token.create in the same transaction. It
	// returns ErrExists where a token that is neither revoked nor expired at t.CreatedAt
	// has the name; one that is expired gives it up.
	InsertToken(ctx context.Context, t Token) error
	// RevokeToken revokes the token of an id or a name, forgets its sessions and audits
	// token.revoke in the same transaction. It returns ErrNotFound where there is none, or it is revoked.
	RevokeToken(ctx context.Context, id string, at time.Time) error
	// TouchToken notes that a token was used. It never goes back.
	TouchToken(ctx context.Context, id string, at time.Time) error
	// Note audits that the context's actor did something to an object that changed nothing in
	// the store, such as a check of a job or a test of a channel. What changes something is
	// audited in its own transaction. An action that is not in Actions is an error.
	Note(ctx context.Context, action Action, object, detail string) error
	// Audit lists who did what, newest first, and where the next page begins: empty at the
	// end. It returns futurejobs.ErrBadCursor for another list's cursor.
	Audit(ctx context.Context, f AuditFilter) (entries []AuditEntry, next string, err error)
}

// Tokens makes tokens and knows them again. It is safe for concurrent use.
type Tokens struct {
	store    Store
	now      func() time.Time
	recent   tokenCache // tokens
	sessions tokenCache
}

// NewTokens returns a keeper of the tokens in s. Tokens expire by now.
func NewTokens(s Store, now func() time.Time) *Tokens {
	return &Tokens{store: s, now: now}
}

// Create makes a token. Its secret is returned here and never again: only a hash is kept.
//
// It returns Problems for a wish that cannot be granted, and ErrExists.
func (k *Tokens) Create(ctx context.Context, w TokenRequest) (t Token, secret string, err error) {
	if w, err = w.read(); err != nil {
		return Token{}, "", err
	}
	if err := k.checkLookAlikes(ctx, w.Name); err != nil {
		return Token{}, "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Token{}, "", fmt.Errorf("token id: %w", err)
	}
	secret = newSecret(tokenPrefix)
	t = Token{
		ID: id.String(), Name: w.Name, Scopes: w.Scopes, Prefix: w.Prefix, Given: w.Bounds,
		CreatedAt: micro(k.now()), CreatedBy: ActorOf(ctx).Name, Hash: hashOf(secret),
	}
	if w.Expires != 0 {
		t.ExpiresAt = micro(t.CreatedAt.Add(w.Expires))
	}
	defer k.recent.forget() // also after an error: it may have been done nevertheless
	if err := k.store.InsertToken(ctx, t); err != nil {
		return Token{}, "", err
	}
	return t, secret, nil
}

// checkLookAlikes refuses a name that people take for that of another live token, in the audit for one. Of two such tokens that are made
// at the same moment, both are: the store compares names alone. The error wraps ErrExists.
func (k *Tokens) checkLookAlikes(ctx context.Context, name string) error {
	all, err := k.store.Tokens(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Live(k.now()) && t.Name != name && looksAlike(t.Name, name) {
			return fmt.Errorf("%w: %q looks like %q", ErrExists, name, t.Name)
		}
	}
	return nil
}

// micro is a time as a store keeps it.
func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Authenticate returns the live token that has the secret, or ErrDenied.
func (k *Tokens) Authenticate(ctx context.Context, secret string) (Token, error) {
	p, err := k.find(ctx, &k.recent, hashOf(secret), k.tokenOf)
	return p.token, err
}

// tokenOf asks the store for a token.
func (k *Tokens) tokenOf(ctx context.Context, hash [32]byte) (pass, error) {
	t, err := k.store.TokenByHash(ctx, hash)
	return pass{token: t}, err
}

// find returns what a secret opens, or ErrDenied.
//
//  1. The secret was hashed, whatever it looks like.
//  2. What it opens is found by the hash: among the recent ones, which are live, or in the
//     store. How long that takes depends on the hash, which tells nothing about a secret.
//  3. The hashes are compared in constant time, also where nothing was found. So what is
//     unknown, expired or revoked has gone the same way when it is denied.
//  4. The use is noted, at most once a minute.
func (k *Tokens) find(ctx context.Context, among *tokenCache, hash [32]byte, ask func(context.Context, [32]byte) (pass, error)) (pass, error) {
	now := k.now()
	changes := among.changes()
	p, known := among.get(hash, now)
	if !known {
		var err error
		if p, err = ask(ctx, hash); errors.Is(err, futurejobs.ErrNotFound) {
			p = pass{}
		} else if err != nil {
			return pass{}, err
		}
	}
	has := p.hash()
	same := subtle.ConstantTimeCompare(has[:], hash[:]) == 1
	if !same || !p.live(now) {
		among.drop(hash)
		return pass{}, ErrDenied
	}
	if !known {
		among.keep(p, now, changes)
	}
	if among.used(p, now) {
		k.touch(ctx, p, micro(now))
	}
	return p, nil
}

// touch notes a use. A use that cannot be noted is no reason to deny it; a later one is noted.
func (k *Tokens) touch(ctx context.Context, p pass, at time.Time) {
	if p.token.ID != "" {
		_ = k.store.TouchToken(ctx, p.token.ID, at)
	}
	if p.session.ID != "" {
		_ = k.store.TouchSession(ctx, p.session.ID, at)
	}
}

// Knows reports, without the store, whether a secret opened something lately: a token, or a session.
func (k *Tokens) Knows(secret string) bool {
	hash := hashOf(secret)
	return k.recent.has(hash) || k.sessions.has(hash)
}

// Revoke ends the token of an id or a name, on this node at once and on others within
// seconds. It returns ErrNotFound where there is none, or it is revoked already.
func (k *Tokens) Revoke(ctx context.Context, id string) error {
	defer k.sessions.forget()
	defer k.recent.forget() // also after an error: it may have been done nevertheless
	return k.store.RevokeToken(ctx, id, micro(k.now()))
}

// List returns all tokens, newest first, those that ended too for as long as the audit is
// kept, and the newest for good.
func (k *Tokens) List(ctx context.Context) ([]Token, error) { return k.store.Tokens(ctx) }

// HasTokens reports whether there is a live token that may do everything. Without one nobody
// could make tokens if every request needed one.
func (k *Tokens) HasTokens(ctx context.Context) (bool, error) {
	tokens, err := k.List(ctx)
	if err != nil {
		return false, err
	}
	now := k.now()
	return slices.ContainsFunc(tokens, func(t Token) bool { return t.Live(now) && t.May(Admin, "") }), nil
}

// EverIssued reports whether there ever was a token in this database, also one that was revoked or
// is expired. The store keeps the newest token for good, so that the answer stays true. That there
// is none is believed for seconds, unless one is made here: a node that is open asks with each
// request.
func (k *Tokens) EverIssued(ctx context.Context) (bool, error) {
	now, changes := k.now(), k.recent.changes()
	if k.recent.free(now) {
		return false, nil
	}
	tokens, err := k.List(ctx)
	if err != nil || len(tokens) > 0 {
		return len(tokens) > 0, err
	}
	k.recent.keepFree(now, changes)
	return false, nil
}

// Note audits what the context's actor did to an object and what changed nothing in the store. It is
// audited also where the actor does not wait for the answer.
func (k *Tokens) Note(ctx context.Context, action Action, object, detail string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	return k.store.Note(ctx, action, object, detail)
}

// noteTimeout is how long the store may take for an entry of the audit.
const noteTimeout = 10 * time.Second

// Audit lists who did what, newest first, and where the next page begins: empty at the end.
// It returns futurejobs.ErrBadCursor for another list's cursor.
func (k *Tokens) Audit(ctx context.Context, f AuditFilter) (entries []AuditEntry, next string, err error) {
	return k.store.Audit(ctx, f)
}
