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

// statement is a query as prepared by one connection.
type statement struct {
	*pgconn.StatementDescription
	columns []lookup.Column
	names   []json.RawMessage
}

// mostStatements bounds the prepared statements of a connection.
const mostStatements = 200

// prepared returns a query as prepared by a connection, preparing it on first use. An error that wraps
// lookup.ErrQuestion belongs to the query, any other to the source.
func prepared(ctx context.Context, c *pgconn.PgConn, query string) (*statement, error) {
	kept := c.CustomData()
	if s, ok := kept[query].(*statement); ok {
		return s, nil
	}
	for old, s := range kept {
		if len(kept) <= mostStatements { // one entry is the count
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

// counting is the key for a connection's count of prepared statements; no query is empty.
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

// kindOf returns the JSON type of a column. A type with several JSON forms, or none, is an error: the author of the
// query must convert it.
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
			return "", fmt.Errorf("%w: column %[2]s has several values (%[3]s); write to_jsonb(%[2]s) as %[2]s", lookup.ErrQuestion, f.Name, t.Name)
		}
	}
	return lookup.Text, nil
}

// typesOf holds the types that every Postgres has.
var typesOf = pgtype.NewMap()

// object returns a row as a JSON object.
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
		if c.Type == lookup.Any { // other types have no depth
			return object(o)
		}
	}
	return o, nil
}

// field encodes a value from Postgres's text format as JSON.
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
			return nil, fmt.Errorf("column %s is %s, which is not a JSON number", s.columns[i].Name, v)
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

// instant converts a Postgres time to RFC 3339; other values, such as infinity, are unchanged.
func instant(text, from, to string) string {
	t, err := time.Parse(from, text)
	if err != nil {
		return text
	}
	return t.Format(to)
}
