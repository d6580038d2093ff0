package store

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// defaultLimit is how many items a page holds when the filter does not say.
const defaultLimit = 50

// maxID is past every id.
const maxID = math.MaxInt64

func limit(f futurejobs.Filter) int {
	if f.Limit <= 0 {
		return defaultLimit
	}
	return min(f.Limit, futurejobs.MaxLimit)
}

// position is where a page of a list ended. A list uses the fields it is ordered by.
type position struct {
	List  string    `json:"l"`
	At    time.Time `json:"t,omitzero"`
	Shard int16     `json:"s,omitempty"`
	ID    int64     `json:"i,omitempty"`
	Alert alerts.ID `json:"a,omitzero"`
}

// cursor is the position as it is handed out.
func (p position) cursor() string {
	b, _ := json.Marshal(p) // it has nothing that could fail
	return base64.RawURLEncoding.EncodeToString(b)
}

// read sets the position to where cursor stands in the list. It leaves it as it is when
// there is no cursor, and returns ErrBadCursor for another list's.
func (p *position) read(list, cursor string) error {
	if cursor == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return futurejobs.ErrBadCursor
	}
	var got position
	if err := json.Unmarshal(b, &got); err != nil || got.List != list {
		return futurejobs.ErrBadCursor
	}
	*p = got
	return nil
}

// paged cuts items to the limit; if there are more, where says where the next page begins.
func paged[T any](list string, items []T, f futurejobs.Filter, where func(T) position) futurejobs.Page[T] {
	n := limit(f)
	if len(items) <= n {
		return futurejobs.Page[T]{Items: items}
	}
	last := where(items[n-1])
	last.List = list
	return futurejobs.Page[T]{Items: items[:n:n], Next: last.cursor()}
}
