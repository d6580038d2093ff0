package store_test

import (
	"testing"

	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// TestAcknowledgementsAreForgotten checks that an acknowledgement is deleted with its job, and not before.
func TestAcknowledgementsAreForgotten(t *testing.T) {
	for name, o := range map[string]store.Options{
		"sqlite":   {DataDir: t.TempDir()},
		"postgres": {DatabaseURL: storetest.Postgres(t)},
	} {
		t.Run(name, func(t *testing.T) {
			o.Shards = 2
			s := open(t, o)
			do := func(text string, args ...any) {
				t.Helper()
				if _, err := s.DB().ExecContext(t.Context(), text, args...); err != nil {
					t.Fatal(err)
				}
			}
			do(`INSERT INTO future_job (shard, id, rule_id, version, key, created_at, since_at, first_check_at, next_check_at)
SELECT 1, 7, 1, 1, 'a', expires_at, expires_at, expires_at, expires_at FROM shard_lease WHERE shard = 1`)
			do(`INSERT INTO acknowledgement (shard, job_id, alert_id, by_whom, at, until_at, note)
SELECT shard, 7, $1, 'ada', expires_at, expires_at, '' FROM shard_lease`, make([]byte, 16))
			if _, err := s.Prune(t.Context(), store.Retention{}); err != nil {
				t.Fatal(err)
			}
			var shard, n int
			if err := s.DB().QueryRowContext(t.Context(), `SELECT min(shard), count(*) FROM acknowledgement`).Scan(&shard, &n); err != nil {
				t.Fatal(err)
			}
			if n != 1 || shard != 1 {
				t.Errorf("%d are left, the first of shard %d; want that of the pending job alone", n, shard)
			}
		})
	}
}
