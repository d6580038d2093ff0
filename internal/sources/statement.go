package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"deadman/checks/lookup"
)

// statement is a query as one connection prepared it.
type statement struct {
	*pgconn.StatementDescription
	columns []lookup.Column
	names   []json.RawMessage
}

// mostStatements bounds what a connection keeps prepared.
const mostStatements = 200

// prepared is a query on a connection, which prepares it once. An error is of the query if it
// wraps lookup.ErrQuestion, otherwise of the source.
func prepared(ctx context.Context, c *pgconn.PgConn, query string) (*statement, error) {
	kept := c.CustomData()
	if s, ok := kept[query].(*statement); ok {
		return s, nil
	}
	for old, s := range kept {
		if len(kept) <= mostStatements { // one of them is the count
			break
		}
		if s, ok := s.(*statement); ok {
			if err := c.Deallocate(ctx, s.Name); err != nil {
				return nil, unreachable(ctx, err)
			}
			delete(kept, old)
		}
	}
	count, _ := kept[counting].(int)
	kept[counting] = count + 1
	s, err := prepare(ctx, c, "deadman_"+strconv.Itoa(count), query)
	if err == nil {
		kept[query] = s
	}
	return s, err
}

// counting is where a connection keeps how many statements it has prepared so far; no query is
// empty.
const counting = ""

func prepare(ctx context.Context, c *pgconn.PgConn, name, query string) (*statement, error) {
	d, err := c.Prepare(ctx, name, query, nil)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && blamed(pg) != scopeSource:
		return nil, refusedQuery(query, pg)
	case err != nil:
		return nil, unreachable(ctx, err)
	}
	s := &statement{StatementDescription: d}
	for _, f := range d.Fields {
		kind, err := kindOf(f)
		if err != nil {
			return nil, err
		}
		s.columns = append(s.columns, lookup.Column{Name: f.Name, Type: kind})
		s.names = append(s.names, quoted(f.Name))
	}
	return s, checkColumns(s.columns)
}

// kindOf is what values of a column are as JSON. What has several forms as JSON, or none, the
// author of the query has to write as one.
func kindOf(f pgconn.FieldDescription) (lookup.Type, error) {
	switch f.DataTypeOID {
	case pgtype.BoolOID:
		return lookup.Boolean, nil
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID:
		return lookup.Number, nil
	case pgtype.JSONOID, pgtype.JSONBOID:
		return lookup.Any, nil
	case pgtype.ByteaOID:
		return "", fmt.Errorf("%w: column %[2]s is bytes (bytea); write encode(%[2]s, 'hex') as %[2]s", lookup.ErrQuestion, f.Name)
	}
	if t, ok := typesOf.TypeForOID(f.DataTypeOID); ok {
		switch t.Codec.(type) {
		case *pgtype.ArrayCodec, *pgtype.RangeCodec, *pgtype.MultirangeCodec, pgtype.RecordCodec, *pgtype.RecordCodec:
			return "", fmt.Errorf("%w: column %[2]s is of several values (%[3]s); write to_jsonb(%[2]s) as %[2]s", lookup.ErrQuestion, f.Name, t.Name)
		}
	}
	return lookup.Text, nil
}

// typesOf are the types that every Postgres has.
var typesOf = pgtype.NewMap()

// object is a row as JSON.
func (s *statement) object(values [][]byte) (json.RawMessage, error) {
	fields := make([]json.RawMessage, len(s.columns))
	for i, v := range values {
		var err error
		if fields[i], err = s.field(i, v); err != nil {
			return nil, err
		}
	}
	o, err := row(s.names, fields)
	if err != nil {
		return nil, err
	}
	for _, c := range s.columns {
		if c.Type == lookup.Any { // nothing else is deep
			return object(o)
		}
	}
	return o, nil
}

// field is a value, which Postgres says as text, as JSON.
func (s *statement) field(i int, v []byte) (json.RawMessage, error) {
	if v == nil {
		return json.RawMessage("null"), nil
	}
	switch s.columns[i].Type {
	case lookup.Any:
		return v, nil
	case lookup.Boolean:
		return strconv.AppendBool(nil, string(v) == "t"), nil
	case lookup.Number:
		if !json.Valid(v) { // NaN and the infinities
			return nil, fmt.Errorf("column %s is %s, which is no number of JSON", s.columns[i].Name, v)
		}
		return v, nil
	}
	switch s.Fields[i].DataTypeOID {
	case pgtype.TimestamptzOID:
		return quoted(instant(string(v), "2006-01-02 15:04:05.999999999Z07", time.RFC3339Nano)), nil
	case pgtype.TimestampOID:
		return quoted(instant(string(v), "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999")), nil
	}
	return quoted(string(v)), nil
}

// instant is a time of Postgres as RFC 3339; what is none there, such as infinity, stays as it is.
func instant(text, from, to string) string {
	t, err := time.Parse(from, text)
	if err != nil {
		return text
	}
	return t.Format(to)
}
