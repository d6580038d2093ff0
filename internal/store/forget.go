package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// ErrKeyInUse means that a key cannot be forgotten yet, since something about it is still to be decided or sent.
var ErrKeyInUse = errors.New("the key is in use")

// ForgetStore deletes the past of a key.
type ForgetStore struct{ *database }

// ForgetRequest names the key of an entity to be forgotten.
type ForgetRequest struct {
	Entity, Key string
	Letters     []int64 // the dead letters of the key
	DryRun      bool    // count the rows, and change none
}

// Forgotten has the numbers of deleted rows, and the remains.
type Forgotten struct {
	Jobs, Alerts, Notifications, EarlyResolves, Pings, PingAddresses, Mutes, DeadLetters, Answers int64

	Audit     int64    // entries that have the pseudonym in place of the key
	Pseudonym string   // of the key; empty in a dry run
	Rules     []string // versions of rules whose documents name the key, such as "backup@3"; they are not changed
}

// AlertsOfKey returns the kept alerts of a key, with the fields that determine their subjects. It reads all
// alerts of the key's shard.
func (s *ForgetStore) AlertsOfKey(ctx context.Context, entity, key string) ([]alerts.Alert, error) {
	k, err := s.forgettable(ctx, entity, key)
	if err != nil {
		return nil, wrapErr("alerts of a key", err)
	}
	found, err := query(ctx, s.read, readListedAlert, `SELECT `+alertHeads+`, `+s.unpublished()+fromAlert+` WHERE `+k.on("a"), k.args()...)
	if err != nil {
		return nil, wrapErr("alerts of a key", err)
	}
	of := make([]alerts.Alert, len(found))
	for i := range found {
		of[i] = found[i].Alert
	}
	return of, nil
}

// RulesOfEntity returns the names of the rules that an entity has or had, or futurejobs.ErrNotFound.
func (s *ForgetStore) RulesOfEntity(ctx context.Context, entity string) ([]string, error) {
	k, err := s.forgettable(ctx, entity, "")
	if err != nil {
		return nil, wrapErr("rules of an entity", err)
	}
	return k.names, nil
}

// ForgetKey deletes the ended jobs of a key, their alerts and all other rows about it, in one transaction, and audits
// entity.forget. In the audit log a random pseudonym replaces the key. It returns futurejobs.ErrNotFound for an entity without
// rules, and ErrKeyInUse while a job of the key is pending, or an alert is not published and delivered to its channels.
func (s *ForgetStore) ForgetKey(ctx context.Context, r ForgetRequest) (f Forgotten, err error) {
	k, err := s.forgettable(ctx, r.Entity, r.Key)
	if err != nil {
		return f, wrapErr("forget", err)
	}
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		f = Forgotten{Pseudonym: "forgotten-" + strings.ToLower(rand.Text()[:16])}
		if err := k.refuseInUse(ctx, tx, s.waiting()); err != nil {
			return err
		}
		if err := k.delete(ctx, tx, r, &f); err != nil {
			return err
		}
		if err := k.pseudonymize(ctx, tx, &f); err != nil {
			return err
		}
		if r.DryRun {
			return errDryRun
		}
		return audit(ctx, tx, now, access.EntityForget, "entity/"+r.Entity+"/"+f.Pseudonym,
			fmt.Sprintf("jobs: %d, alerts: %d, dead letters: %d", f.Jobs, f.Alerts, f.DeadLetters))
	})
	if errors.Is(err, errDryRun) {
		f.Pseudonym, err = "", nil
	}
	if err == nil {
		f.Rules, err = s.versionsNaming(ctx, k)
	}
	if err != nil {
		return f, wrapErr("forget", err)
	}
	return f, nil
}

// errDryRun rolls the transaction of a dry run back.
var errDryRun = errors.New("dry run")

// forgottenKey is a key of an entity with the rules that the entity has or had. Its rows are in one shard.
type forgottenKey struct {
	scope
	key   string
	names []string // of the rules
}

func (s *ForgetStore) forgettable(ctx context.Context, entity, key string) (k forgottenKey, err error) {
	k = forgottenKey{scope{shard: futurejobs.ShardOf(entity, key, s.shards)}, key, nil}
	_, err = query(ctx, s.read, func(row scanner, r *ruleRow) error {
		var name string
		err := row.Scan(&r.id, &name)
		k.rules, k.names = append(k.rules, r.id), append(k.names, name)
		return err
	}, `SELECT id, name FROM rule WHERE entity = $1 ORDER BY id`, escape(entity))
	if err == nil && k.rules == nil {
		err = fmt.Errorf("no rule has or had the entity %q: %w", entity, futurejobs.ErrNotFound)
	}
	slices.Sort(k.names)
	k.names = slices.Compact(k.names) // a name may be used again
	return k, err
}

// args returns the parameters $1 and $2 of a statement with on.
func (k forgottenKey) args() []any { return []any{k.shard, escapedText(k.key)} }

// on returns the condition for the rows of the key in a table with shards.
func (k forgottenKey) on(alias string) string {
	return alias + `.shard = $1 AND ` + alias + `.key = $2` + k.and(alias)
}

// jobs and alerts select the ids of the ended jobs and of the alerts.
func (k forgottenKey) jobs() string { return `(SELECT h.id FROM history h WHERE ` + k.on("h") + `)` }

func (k forgottenKey) alerts() string { return `(SELECT a.id FROM alert a WHERE ` + k.on("a") + `)` }

// refuseInUse returns ErrKeyInUse if the key has a pending job, or an alert that is not published, routed or delivered.
func (k forgottenKey) refuseInUse(ctx context.Context, tx *sql.Tx, waiting string) error {
	for _, c := range []struct{ text, problem string }{
		{`SELECT count(*) FROM future_job f WHERE ` + k.on("f"), "%d pending jobs have it; cancel them first, so that their alerts end"},
		{waiting + ` SELECT count(*) FROM alert a JOIN waiting w ON w.id = a.id WHERE ` + k.on("a"), "%d alerts about it are not published yet; try again once they are"},
		{
			`SELECT count(*) FROM alert a WHERE ` + k.on("a") + `
	AND (EXISTS (SELECT 1 FROM alert_news n WHERE n.shard = a.shard AND n.id = a.id)
		OR EXISTS (SELECT 1 FROM delivery d JOIN notice t ON t.id = d.notice WHERE d.shard = a.shard AND d.alert_id = a.id AND ` + unfinished + `))`,
			"%d alerts about it are not delivered to their channels yet; try again once they are",
		},
		{
			`SELECT count(*) FROM ack_notice n JOIN notice t ON t.id = n.notice WHERE n.shard = $1 AND n.job_id IN ` + k.jobs() + ` AND ` + unfinished,
			"%d messages about its acknowledgements are not delivered yet; try again once they are",
		},
	} {
		var n int64
		if err := tx.QueryRowContext(ctx, c.text, k.args()...).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%w: "+c.problem, ErrKeyInUse, n)
		}
	}
	return nil
}

// delete deletes the rows of the key, those that refer to others first.
func (k forgottenKey) delete(ctx context.Context, tx *sql.Tx, r ForgetRequest, f *Forgotten) error {
	notices, err := query(ctx, tx, readID, `
SELECT d.notice FROM delivery d WHERE d.shard = $1 AND d.notice IS NOT NULL AND d.alert_id IN `+k.alerts()+`
UNION
SELECT n.notice FROM ack_notice n WHERE n.shard = $1 AND n.job_id IN `+k.jobs(), k.args()...)
	if err != nil {
		return err
	}
	var unused int64
	for _, d := range []struct {
		rows   *int64
		pruned string // the count of deleted rows, which Balance needs; empty: none
		text   string
	}{
		{&unused, "", `DELETE FROM check_start WHERE shard = $1 AND job_id IN ` + k.jobs()},
		{&unused, "", `DELETE FROM acknowledgement WHERE shard = $1 AND job_id IN ` + k.jobs()},
		{&unused, "", `DELETE FROM unrouted_ack WHERE shard = $1 AND job_id IN ` + k.jobs()},
		{&unused, "", `DELETE FROM ack_notice WHERE shard = $1 AND job_id IN ` + k.jobs()},
		{&f.Notifications, "", `DELETE FROM delivery WHERE shard = $1 AND alert_id IN ` + k.alerts()},
		{&f.Alerts, "alert", `DELETE FROM alert AS a WHERE ` + k.on("a")},
		{&f.EarlyResolves, "", `DELETE FROM early AS e WHERE ` + k.on("e")},
		{&f.Jobs, "history", `DELETE FROM history AS h WHERE ` + k.on("h")},
	} {
		if *d.rows, err = exec(ctx, tx, d.text, k.args()...); err != nil {
			return err
		}
		if err := count(ctx, tx, d.pruned, *d.rows); err != nil {
			return err
		}
	}
	for _, id := range notices { // a message about other alerts as well stays
		if _, err := exec(ctx, tx, `DELETE FROM notice WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.notice = notice.id)
	AND NOT EXISTS (SELECT 1 FROM ack_notice n WHERE n.notice = notice.id)`, id); err != nil {
			return err
		}
	}
	if f.Pings, err = exec(ctx, tx, `DELETE FROM ping_log AS p WHERE p.key = $1`+k.and("p"), escapedText(k.key)); err != nil {
		return err
	}
	if f.PingAddresses, err = exec(ctx, tx, `DELETE FROM ping_address AS p WHERE p.key = $1`+k.and("p"), escapedText(k.key)); err != nil {
		return err
	}
	for _, id := range r.Letters {
		n, err := exec(ctx, tx, `DELETE FROM dead_letter WHERE id = $1`, id)
		if err != nil {
			return err
		}
		f.DeadLetters += n
	}
	if err := count(ctx, tx, "dead_letter", f.DeadLetters); err != nil {
		return err
	}
	if f.Mutes, err = k.deleteMutes(ctx, tx, r.Entity); err != nil {
		return err
	}
	f.Answers, err = k.deleteAnswers(ctx, tx)
	return err
}

// count adds deleted rows to the count of a kind.
func count(ctx context.Context, tx *sql.Tx, pruned string, n int64) error {
	if pruned == "" || n == 0 {
		return nil
	}
	_, err := exec(ctx, tx, countPruned, n, pruned)
	return err
}

func readID(row scanner, id *int64) error { return row.Scan(id) }

// deleteMutes deletes the mutes of exactly this key.
func (k forgottenKey) deleteMutes(ctx context.Context, tx *sql.Tx, entity string) (deleted int64, err error) {
	mutes, err := query(ctx, tx, readMute, `SELECT `+muteColumns+` FROM mute`)
	if err != nil {
		return 0, err
	}
	for _, m := range mutes {
		of, named := m.Match["entity"]
		if m.Match["key"] != k.key || named && of != entity {
			continue
		}
		n, err := exec(ctx, tx, `DELETE FROM mute WHERE id = $1`, m.ID)
		if err != nil {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}

// keptAnswer is the answer to a request with an Idempotency-Key.
type keptAnswer struct {
	key  string
	body []byte
}

// answersPage is the number of kept answers that are read at once.
const answersPage = 100

// deleteAnswers deletes the kept answers that name the key. Each of them is kept for a day.
func (k forgottenKey) deleteAnswers(ctx context.Context, tx *sql.Tx) (deleted int64, err error) {
	isNamedIn := k.search()
	for last := ""; ; {
		page, err := query(ctx, tx, func(row scanner, a *keptAnswer) error { return row.Scan(&a.key, &a.body) },
			`SELECT key, reply FROM idempotency WHERE key > $1 AND reply IS NOT NULL ORDER BY key LIMIT $2`, last, answersPage)
		if err != nil || len(page) == 0 {
			return deleted, err
		}
		for _, a := range page {
			last = a.key
			if !isNamedIn(a.body) {
				continue
			}
			n, err := exec(ctx, tx, `DELETE FROM idempotency WHERE key = $1`, a.key)
			if err != nil {
				return deleted, err
			}
			deleted += n
		}
	}
}

// search returns a function that reports whether a JSON document has the key as a text, with or without the escapes for HTML.
func (k forgottenKey) search() func(document []byte) bool {
	escaped, _ := json.Marshal(k.key) // a string has no error
	text, _ := toText(k.key)
	plain := []byte(*text)
	return func(document []byte) bool {
		return bytes.Contains(document, escaped) || bytes.Contains(document, plain)
	}
}

// versionsNaming returns the versions of the entity's rules that have the key as a text in their documents.
func (s *ForgetStore) versionsNaming(ctx context.Context, k forgottenKey) (named []string, err error) {
	isNamedIn := k.search()
	_, err = query(ctx, s.read, func(row scanner, _ *struct{}) error {
		var name, document string
		var version int32
		err := row.Scan(&name, &version, &document)
		if isNamedIn([]byte(document)) {
			named = append(named, fmt.Sprintf("%s@%d", name, version))
		}
		return err
	}, `SELECT r.name, v.version, v.document FROM rule_version v JOIN rule r ON r.id = v.rule_id
WHERE 1 = 1`+k.and("v")+` ORDER BY v.rule_id, v.version`)
	return named, err
}

// Compact writes the file of a SQLite database anew, without the pages of deleted rows, and empties its write-ahead log. No
// other write runs meanwhile, and ctx cannot interrupt it. Postgres reuses the room of deleted rows by itself.
func (s *ForgetStore) Compact(ctx context.Context) error {
	if !s.alone {
		return nil
	}
	if err := compactSQLite(ctx, s.db); err != nil {
		return wrapErr("compact", err)
	}
	return nil
}
