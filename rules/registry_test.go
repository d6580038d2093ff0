package rules_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// createJob creates a job of a saved rule by hand.
func createJob(t *testing.T, s *store.Store, of rules.RuleVersion, key string) {
	t.Helper()
	revision, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rule := &futurejobs.Rule{ID: of.RuleID, Version: of.Version, Name: of.Name, Entity: of.Entity, Grid: futurejobs.Grid(time.Minute)}
	at := time.Now().UTC().Truncate(time.Microsecond)
	applied, err := s.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: revision, Effects: []futurejobs.Effect{{
		Rule: rule, Ref: futurejobs.Ref{Shard: futurejobs.ShardOf(of.Entity, key, s.Shards()), RuleID: of.RuleID, Key: key},
		Action: futurejobs.Start{Job: futurejobs.Job{Version: of.Version, Since: at, FirstCheckAt: rule.Grid.Up(at.Add(time.Hour))}},
	}}})
	if err != nil || applied.Created != 1 {
		t.Fatalf("%+v, %v", applied, err)
	}
}

// The jobs of a deleted rule end even if its document is unreadable, and do not block those of others.
func TestJobsOfDeletedRulesEnd(t *testing.T) {
	s := openStore(t)
	broken, err := s.Save(t.Context(), rules.RuleVersion{Name: "newer", Entity: "order", Document: []byte(`{"name": "newer", "telepathy": true}`)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []rules.RuleVersion{broken, saveRule(t, s, 0, orderRules)} {
		createJob(t, s, rule, "1")
		if _, err := s.Delete(t.Context(), rule.Name, rules.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	r := &rules.Registry{Store: s, Catalog: newCatalog(t, s), Jobs: s, Log: discardLog()}
	if n, err := r.EndJobsOfDeletedRules(t.Context()); n != 2 || err != nil {
		t.Errorf("%d jobs ended, want 2: %v", n, err)
	}
	history, err := s.History(t.Context(), futurejobs.Filter{Outcome: "rule_deleted"})
	if err != nil || len(history.Items) != 2 {
		t.Errorf("history: %+v, %v", history.Items, err)
	}
}

// The jobs of a deleted rule end even if the database takes too long for a full page: 50 take 10 s, and a transaction
// has 8.
func TestJobsOfDeletedRuleEndOnSlowDatabase(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	s, err := store.Open(t.Context(), store.Options{DatabaseURL: dsn, Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const jobs = 50
	rule := saveRule(t, s, 0, orderRules)
	for i := range jobs {
		createJob(t, s, rule, fmt.Sprint(i))
	}
	if _, err := s.Delete(t.Context(), rule.Name, rules.AnyVersion); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", dsn)
	if err == nil {
		_, err = db.Exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.2); RETURN new; END $$;
CREATE TRIGGER slow BEFORE INSERT ON history FOR EACH ROW EXECUTE FUNCTION slow()`)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &rules.Registry{Store: s, Catalog: newCatalog(t, s), Jobs: s, Log: discardLog()}
	if n, err := r.EndJobsOfDeletedRules(t.Context()); n != jobs || err != nil {
		t.Errorf("%d jobs ended, want %d: %v", n, jobs, err)
	}
}

// racingStore is a real store that runs a function between reading a version and returning it.
type racingStore struct {
	*store.Store
	meanwhile func()
}

func (o *racingStore) Version(ctx context.Context, rule, version int32) (rules.RuleVersion, error) {
	v, err := o.Store.Version(ctx, rule, version)
	if f := o.meanwhile; f != nil {
		o.meanwhile = nil
		f()
	}
	return v, err
}

// A version that was read before its rule was deleted is not taken for one of the rules after that, or an alert could
// be raised.
func TestVersionIsNotOlderThanRevision(t *testing.T) {
	s := &racingStore{Store: openStore(t)}
	b := newCatalog(t, s)
	rule := saveRule(t, s, 0, orderRules) // the catalog does not know it yet
	s.meanwhile = func() {
		if _, err := s.Delete(t.Context(), rule.Name, rules.AnyVersion); err != nil {
			t.Error(err)
		}
		if err := b.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Rule(t.Context(), rule.RuleID, 1); err != nil {
		t.Fatal(err)
	}
	if r, err := b.Rule(t.Context(), rule.RuleID, 1); err != nil || !r.Deleted {
		t.Errorf("deleted is %t, %v", r.Deleted, err)
	}
}
