package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// listedMost is futurejobs.ListedMost as a literal in a statement.
var listedMost = strconv.Itoa(futurejobs.ListedMost)

// headOfAlert is the part of a large alert's document that a list reads first: its event and its state come last in it.
const headOfAlert = `substr(a.detail, 1, 8192)`

// fill reads the documents of the alerts of a page; of a large one, all but its event and its state. A page is selected
// without documents, since the shards together have many more alerts than a page. An alert that retention deletes
// meanwhile is left out.
func (s *Store) fill(ctx context.Context, page []futurejobs.ListedAlert) ([]futurejobs.ListedAlert, error) {
	places := make(map[int16]map[alerts.ID]*futurejobs.ListedAlert)
	for i := range page {
		a := &page[i]
		if places[a.Shard] == nil {
			places[a.Shard] = make(map[alerts.ID]*futurejobs.ListedAlert)
		}
		places[a.Shard][a.ID] = a
	}
	for shard, wanted := range places {
		if err := s.fillOf(ctx, shard, wanted); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(page, func(a futurejobs.ListedAlert) bool { return places[a.Shard][a.ID] != nil }), nil
}

// fillOf fills the alerts of a shard and removes those that it finds from wanted.
func (s *Store) fillOf(ctx context.Context, shard int16, wanted map[alerts.ID]*futurejobs.ListedAlert) error {
	w := filter{`SELECT a.id, CASE WHEN octet_length(a.detail) <= ` + listedMost + ` THEN a.detail ELSE ` + headOfAlert + ` END,
	octet_length(a.detail) > ` + listedMost + `
FROM alert a WHERE a.shard = ? AND a.id IN (?` + strings.Repeat(`, ?`, len(wanted)-1) + `)`, []any{shard}}
	for id := range wanted {
		w.args = append(w.args, id[:])
	}
	bodies, err := query(ctx, s.read, readAlertBody, rebindPlaceholders(w.text), w.args...)
	if err != nil {
		return err
	}
	for _, b := range bodies {
		a := wanted[b.id]
		switch {
		case !b.large:
			err = a.Read([]byte(b.text))
		case a.ReadHead([]byte(b.text)):
			a.Omitted = true
		default:
			err = s.readLarge(ctx, shard, a)
		}
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		delete(wanted, b.id)
	}
	return nil
}

// readLarge reads the whole document of an alert and drops its event and its state.
func (s *Store) readLarge(ctx context.Context, shard int16, a *futurejobs.ListedAlert) error {
	var text string
	if err := s.read.QueryRowContext(ctx, `SELECT a.detail FROM alert a WHERE a.shard = $1 AND a.id = $2`, shard, a.ID[:]).Scan(&text); err != nil {
		return err
	}
	if err := a.Read([]byte(text)); err != nil {
		return err
	}
	a.Event, a.State, a.Omitted = nil, nil, true
	return nil
}

// alertBody is the document of an alert, or the beginning of a large one.
type alertBody struct {
	id    alerts.ID
	text  string
	large bool
}

func readAlertBody(row scanner, b *alertBody) error { return row.Scan(&b.id, &b.text, &b.large) }
