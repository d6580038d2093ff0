package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/vm"

	"deadman/internal/store"
)

// sqliteDB is a file in a folder.
type sqliteDB struct {
	dir         string
	db          *sql.DB   // opened at the first use, after the engine has created the file
	pendingFrom time.Time // time of the first pending job; jobs due earlier belong to a round
	pending     int
}

func (g *sqliteDB) options() store.Options {
	o := storeOptions()
	o.DataDir = g.dir
	return o
}

func (g *sqliteDB) store(ctx context.Context) (*store.Store, error) {
	return store.Open(ctx, g.options())
}

// open connects as the engine does: a commit is on disk when it returns.
func (g *sqliteDB) open() (*sql.DB, error) {
	if g.db != nil {
		return g.db, nil
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "temp_store(memory)", "cache_size(-32768)",
	}}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(g.dir, store.DatabaseFile)), RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	g.db = db
	return db, nil
}

// close closes the file; its creator removes the folder.
func (g *sqliteDB) close(context.Context) error {
	if g.db == nil {
		return nil
	}
	return g.db.Close()
}

func (g *sqliteDB) now(context.Context) (time.Time, error) { return time.Now(), nil }

func (g *sqliteDB) written(context.Context) (int64, error) { return 0, nil }

func (g *sqliteDB) fullPageImages(context.Context) (int64, error) { return 0, nil }

// ofRounds returns the condition for jobs of a round.
func (g *sqliteDB) ofRounds() string {
	all := make([]string, shards)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return fmt.Sprintf(`shard IN (%s) AND next_check_at < %d`, strings.Join(all, ", "), g.pendingFrom.UnixMicro())
}

func (g *sqliteDB) clear(ctx context.Context) error {
	jobs := `DELETE FROM future_job`
	if g.pending > 0 {
		jobs += ` WHERE ` + g.ofRounds()
	}
	return g.execute(ctx, jobs, `DELETE FROM history`, `DELETE FROM alert`, `DELETE FROM alert_outbox`)
}

func (g *sqliteDB) fill(ctx context.Context, shape Shape, jobs int, ahead time.Duration) error {
	due := time.Now().Truncate(time.Minute).Add(-time.Minute)
	if ahead > 0 {
		due = time.Now().Truncate(time.Second).Add(ahead)
	}
	rule := fmt.Sprintf(`CASE WHEN i * %[2]d / %[1]d > (i - 1) * %[2]d / %[1]d THEN 'bench' ELSE 'bench-later' END`, jobs, shape.ends(jobs))
	return g.execute(ctx, insertAlone(1, jobs, rule, `'key-' || i`, strconv.FormatInt(due.UnixMicro(), 10)), `PRAGMA wal_checkpoint(TRUNCATE)`)
}

// insertAlone returns the statement that inserts the jobs of some numbers i; rule, key and due are SQL expressions.
func insertAlone(from, to int, rule, key, due string) string {
	return fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
		SELECT ((i * 2654435761) >> 16) %% %[3]d, r.id, (SELECT max(version) FROM rule_version v WHERE v.rule_id = r.id), %[4]s, %[5]s, %[5]s, %[5]s, %[5]s,
			json_object('order_id', 'ord-' || i, 'status', 'UNSHIPPED', 'total', i %% 500, 'pad', printf('%%.120c', 'x'))
		FROM n JOIN rule r ON r.name = %[6]s`, from, to, shards, key, due, rule)
}

// execute runs statements, each in its own transaction.
func (g *sqliteDB) execute(ctx context.Context, statements ...string) error {
	db, err := g.open()
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// openOldSnapshot is not supported: SQLite does not keep deleted rows.
func (g *sqliteDB) openOldSnapshot(context.Context) (func(context.Context) error, error) {
	return nil, errors.New("old transactions are not supported with SQLite; give a Postgres")
}

func (g *sqliteDB) check(ctx context.Context, shape Shape, jobs int) (int64, error) {
	var d tableCounts
	err := g.db.QueryRowContext(ctx, counted(fmt.Sprint(time.Now().UnixMicro()), "next_check_at", g.ofRounds())).Scan(d.fields()...)
	if err != nil {
		return 0, err
	}
	return d.bytes, d.was(shape, jobs)
}

const (
	aloneRead = `SELECT id, key, next_check_at, event, rule_id = (SELECT id FROM rule WHERE name = 'bench') FROM future_job
	WHERE shard = $1 AND next_check_at <= $2 AND (next_check_at, id) > ($3, $4)
	ORDER BY shard, next_check_at, id LIMIT $5`
	aloneArchive = `INSERT INTO history (shard, key, rule_id, id, version, outcome, ended_at, created_at, since_at, first_check_at, next_check_at,
		check_count, step, picked_at, started_at, completed_at, checks, check_total, check_slowest, alert_ids)
	SELECT shard, key, rule_id, id, version, 'exhausted', $1, created_at, since_at, first_check_at, next_check_at, 1, 1, $1, $1, $1, 1, 1, 1, $2
	FROM future_job WHERE id = $3 AND shard = $4 AND rev = 0`
	aloneDelete = `DELETE FROM future_job WHERE id = $1`
	aloneAlert  = `INSERT INTO alert (shard, id, rule_id, version, status, severity, key, decided_at, since_at, check_count, detail)
	SELECT $1, $2, id, (SELECT max(version) FROM rule_version v WHERE v.rule_id = rule.id), 1, 2, $3, $4, $5, 1, $6 FROM rule WHERE name = 'bench'`
	alonePost = `INSERT INTO alert_outbox (shard, at, first_id, ids) VALUES ($1, $2, $3, $4)`
	aloneMove = `UPDATE future_job SET rev = rev + 1, next_check_at = $1 + 3600000000, check_count = check_count + 1,
		picked_at = $1, started_at = $1, completed_at = $1, checks = checks + 1, check_total = 1, check_slowest = 1, trail = $2
	WHERE id = $3 AND shard = $4 AND rev = 0`
)

// bare settles with plain SQL: the jobs read of a shard are written in one transaction with prepared statements.
func (g *sqliteDB) bare(ctx context.Context, _ Shape) (err error) {
	db, err := g.open()
	if err != nil {
		return err
	}
	condition, err := compiled()
	if err != nil {
		return err
	}
	f := &sqliteBaseline{db: db, condition: condition}
	if err := f.prepare(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for shard := range int16(shards) {
		for at, id := int64(0), int64(0); ; {
			jobs, err := f.read(ctx, shard, at, id)
			if err != nil {
				return err
			}
			if err := f.write(ctx, jobs); err != nil {
				return err
			}
			if len(jobs) < floorBatch {
				break
			}
			last := jobs[len(jobs)-1]
			at, id = last.at.UnixMicro(), last.id
		}
	}
	return nil
}

func (g *sqliteDB) insert(ctx context.Context, r *bareRows) (err error) {
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	insert, err := tx.PrepareContext(ctx, aloneInsert)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for i := range r.shard {
		if _, err := insert.ExecContext(ctx, r.shard[i], r.rule[i], r.version[i], r.key[i],
			r.created[i].UnixMicro(), r.since[i].UnixMicro(), r.first[i].UnixMicro(), r.next[i].UnixMicro(), r.event[i]); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (g *sqliteDB) createdBytes(ctx context.Context, jobs int) (bytes int64, err error) {
	var there int
	if err := g.db.QueryRowContext(ctx, fmt.Sprintf(createdRows+g.ofRounds()+` AND next_check_at > %d`, time.Now().UnixMicro())).Scan(&there, &bytes); err != nil {
		return 0, err
	}
	return bytes, checkCreated(there, jobs)
}

func (g *sqliteDB) vacuumAndCheckpoint(ctx context.Context) error {
	return g.run(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
}

func (g *sqliteDB) run(ctx context.Context, statements ...string) error {
	return g.execute(ctx, statements...)
}

// pend inserts the other pending jobs.
func (g *sqliteDB) pend(ctx context.Context, o Options) error {
	if o.Scattered {
		return errors.New("scattered jobs are not supported with SQLite; give a Postgres")
	}
	g.pending = o.Pending
	for from := 1; from <= o.Pending; from += backlogChunk {
		to := min(from+backlogChunk-1, o.Pending)
		due := fmt.Sprintf(`%d + (i * 7919) %% %d * 1000000`, g.pendingFrom.UnixMicro(), int(pendsSpread.Seconds()))
		if err := g.execute(ctx, insertAlone(from, to, `'bench-later'`, laterKey, due)); err != nil {
			return err
		}
		o.progress("pending jobs", to, o.Pending)
	}
	return nil
}

func (g *sqliteDB) pends(ctx context.Context) error {
	db, err := g.open()
	if err != nil {
		return err
	}
	n := 0
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM future_job WHERE next_check_at >= $1`, g.pendingFrom.UnixMicro()).Scan(&n); err != nil {
		return err
	}
	return allPend(n, g.pending)
}

// sqliteBaseline is the floor on SQLite.
type sqliteBaseline struct {
	db        *sql.DB
	condition *vm.Program
	machine   vm.VM

	due, archive, remove, insertAlert, post, move *sql.Stmt
}

func (f *sqliteBaseline) prepare(ctx context.Context) (err error) {
	for _, s := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&f.due, aloneRead},
		{&f.archive, aloneArchive},
		{&f.remove, aloneDelete},
		{&f.insertAlert, aloneAlert},
		{&f.post, alonePost},
		{&f.move, aloneMove},
	} {
		if *s.to, err = f.db.PrepareContext(ctx, s.text); err != nil {
			return err
		}
	}
	return nil
}

func (f *sqliteBaseline) close() (err error) {
	for _, s := range []*sql.Stmt{f.due, f.archive, f.remove, f.insertAlert, f.post, f.move} {
		err = errors.Join(err, s.Close())
	}
	return err
}

// read reads up to a batch of a shard's due jobs after a position.
func (f *sqliteBaseline) read(ctx context.Context, shard int16, at, id int64) (jobs []floorJob, err error) {
	rows, err := f.due.QueryContext(ctx, shard, time.Now().UnixMicro(), at, id, floorBatch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		j := floorJob{shard: shard}
		var next int64
		if err := rows.Scan(&j.id, &j.key, &next, &j.body, &j.ends); err != nil {
			return nil, err
		}
		j.at = time.UnixMicro(next)
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}

// write checks jobs and writes the results in one transaction.
func (f *sqliteBaseline) write(ctx context.Context, jobs []floorJob) error {
	var r baselineRows
	for _, j := range jobs {
		if err := r.check(j, f.condition, &f.machine); err != nil {
			return err
		}
	}
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	archive, remove, insertAlert, post, move := tx.StmtContext(ctx, f.archive), tx.StmtContext(ctx, f.remove), tx.StmtContext(ctx, f.insertAlert), tx.StmtContext(ctx, f.post), tx.StmtContext(ctx, f.move)
	run := func(s *sql.Stmt, args ...any) {
		if err == nil {
			_, err = s.ExecContext(ctx, args...)
		}
	}
	by := map[int64]floorJob{}
	for _, j := range jobs {
		by[j.id] = j
	}
	for i, id := range r.end.ids {
		shard, at, alert := r.end.shards[i], r.end.at[i].UnixMicro(), r.end.alerts[i]
		run(archive, at, alert[:], id, shard)
		run(remove, id)
		run(insertAlert, shard, alert[:], by[id].key, at, by[id].at.UnixMicro(), r.end.details[i])
	}
	for alerts := range slices.Chunk(r.end.alerts, 120) { // all of one shard
		var ids []byte
		for _, id := range alerts {
			ids = append(ids, id[:]...)
		}
		run(post, r.end.shards[0], time.Now().UnixMicro(), ids[:16], ids)
	}
	for i, id := range r.move.ids {
		run(move, r.move.at[i].UnixMicro(), r.move.trails[i], id, r.move.shards[i])
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

const aloneInsert = `INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
