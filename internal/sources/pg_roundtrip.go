package sources

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"deadman/checks"
)

// roundTrip is one round trip: all requests are sent in one piece, and then the responses are read.
//
// All keys of a batch are queried in one transaction, and thus see one snapshot of the database. The first failing
// key aborts it. The keys after it are queried again, with a sync point and a separate transaction for each:
// regardless of the number of failures, the second round trip answers all keys.
type roundTrip struct {
	*batch
	statement *statement
	pipe      *pgconn.Pipeline
	breakOff  context.CancelFunc // closes the connection
}

var (
	errStale       = errors.New("the query was prepared before the tables changed")
	errTooMuchData = errors.New("the result is too large")
	errLost        = errors.New("the database ended the connection while it ran the query")
)

func (t *roundTrip) run(timeout string) error {
	parameters, err := t.parameters()
	if err != nil {
		return err
	}
	if t.apart {
		t.sendApart(timeout, parameters)
	} else {
		t.sendTogether(timeout, parameters)
	}
	if err := t.pipe.Sync(); err != nil {
		return err
	}
	if t.apart {
		return t.readApart(len(parameters))
	}
	return t.readTogether(len(parameters))
}

// parameters returns the parameters of the remaining keys, as text.
func (t *roundTrip) parameters() ([][][]byte, error) {
	left := t.queries[t.next:]
	all := make([][][]byte, len(left))
	for i, query := range left {
		if len(query.Params) != len(t.statement.ParamOIDs) {
			return nil, wrongCount(len(t.statement.ParamOIDs), len(query.Params))
		}
		all[i] = make([][]byte, len(query.Params))
		for j, param := range query.Params {
			var err error
			if all[i][j], err = asText(param); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// begin sends the beginning of a transaction, with two results.
func (t *roundTrip) begin(timeout string) {
	t.pipe.SendQueryParams("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", nil, nil, nil, nil)
	t.pipe.SendQueryParams("SELECT set_config('statement_timeout', $1, true)", [][]byte{[]byte(timeout)}, nil, nil, nil)
}

// rollback sends the end of a transaction, with two results: it reverts all settings, and releases advisory locks of
// the session, which a query can acquire and a rollback keeps. It costs no extra round trip.
func (t *roundTrip) rollback() {
	t.pipe.SendQueryParams("ROLLBACK", nil, nil, nil, nil)
	t.pipe.SendQueryParams("SELECT pg_catalog.pg_advisory_unlock_all()", nil, nil, nil, nil)
}

func (t *roundTrip) sendTogether(timeout string, parameters [][][]byte) {
	t.begin(timeout)
	for i, params := range parameters {
		t.pipe.SendQueryStatement(t.statement.StatementDescription, params, nil, nil)
		if i&(i-1) == 0 || i%16 == 0 { // so that answers before a slow query arrive early
			t.pipe.SendFlushRequest()
		}
	}
	t.rollback()
}

func (t *roundTrip) sendApart(timeout string, parameters [][][]byte) {
	for i, params := range parameters {
		if i > 0 {
			t.pipe.SendPipelineSync()
		}
		t.begin(timeout)
		t.pipe.SendQueryStatement(t.statement.StatementDescription, params, nil, nil)
		t.pipe.SendPipelineSync()
		t.rollback()
	}
}

func (t *roundTrip) readTogether(keys int) error {
	if err := t.skipResults(2); err != nil {
		return err
	}
	for range keys {
		failed, err := t.readKey()
		if err != nil {
			return err
		}
		if failed { // the transaction is aborted too
			t.apart = true
			return t.endFailed()
		}
	}
	return t.skipResults(3) // the end of the transaction, and the sync
}

// endFailed reads to the end of an aborted transaction, and rolls it back.
func (t *roundTrip) endFailed() error {
	if err := t.skipResults(1); err != nil {
		return err
	}
	t.rollback()
	if err := t.pipe.Sync(); err != nil {
		return err
	}
	return t.skipResults(3)
}

func (t *roundTrip) readApart(keys int) error {
	for range keys {
		if err := t.skipResults(2); err != nil {
			return err
		}
		if _, err := t.readKey(); err != nil {
			return err
		}
		if err := t.skipResults(4); err != nil { // the key's sync, the end of the transaction, and its sync
			return err
		}
	}
	return nil
}

// skipResults discards results.
func (t *roundTrip) skipResults(results int) error {
	for range results {
		got, err := t.pipe.GetResults()
		if reader, ok := got.(*pgconn.ResultReader); ok && err == nil {
			_, err = reader.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readKey reads the response of the next key. err is an error of the round trip; failed reports a Postgres error of
// the key.
func (t *roundTrip) readKey() (failed bool, err error) {
	f, err := t.read()
	var pg *pgconn.PgError
	switch {
	case errors.As(err, new(*pgproto3.ExceededMaxBodyLenErr)):
		return false, errTooMuchData
	case errors.As(err, &pg):
		switch blamed(pg) {
		case scopeSource:
			return false, err
		case scopeStalePlan:
			return false, errStale
		}
		t.answer(checks.Finding{Err: pgError{pg}})
		return true, nil
	case err != nil:
		return false, err
	}
	t.answer(f)
	return false, nil
}

// read reads the rows of one key.
func (t *roundTrip) read() (f checks.Finding, err error) {
	got, err := t.pipe.GetResults()
	if err != nil {
		return f, err
	}
	reader, ok := got.(*pgconn.ResultReader)
	if !ok {
		return f, fmt.Errorf("expected rows, got a %T", got)
	}
	rows, size := 0, 0
	for reader.NextRow() {
		if rows++; rows == 1 {
			f.Value, f.Err = t.statement.object(reader.Values())
		}
		for _, v := range reader.Values() {
			size += len(v)
		}
		if size += 8; size > mostMessage { // the remainder may be long
			t.breakOff()
			return f, errTooMuchData
		}
	}
	if _, err := reader.Close(); err != nil {
		return f, err
	}
	if rows > 1 {
		return checks.Finding{Err: severalRows(strconv.Itoa(rows))}, nil
	}
	return f, nil
}
