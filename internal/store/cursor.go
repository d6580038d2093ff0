package store

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"math"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// defaultLimit is the number of items on a page if the filter sets none.
const defaultLimit = 50

// maxID is greater than every id.
const maxID = math.MaxInt64

func limit(f futurejobs.Filter) int {
	if f.Limit <= 0 {
		return defaultLimit
	}
	return min(f.Limit, futurejobs.MaxLimit)
}

// position is the end of a page of a list. A list uses the fields that it is ordered by.
type position struct {
	List  string    `json:"l"`
	At    time.Time `json:"t,omitzero"`
	Shard int16     `json:"s,omitempty"`
	ID    int64     `json:"i,omitempty"`
	Alert alerts.ID `json:"a,omitzero"`
	Rule  int32     `json:"r,omitempty"`
	Key   string    `json:"k,omitempty"` // as it is stored
}

// cursor encodes the position for clients.
func (p position) cursor() string {
	b, _ := json.Marshal(p) // no field can fail
	return base64.RawURLEncoding.EncodeToString(b)
}

// read sets the position to that of a cursor of the list. Without a cursor it leaves the position unchanged. For a
// cursor of another list it returns ErrBadCursor.
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

// compare orders positions by (At, Shard, ID). A position without an id is before all others of its instant.
func (p position) compare(q position) int {
	return cmp.Or(p.At.Compare(q.At), cmp.Compare(min(p.ID, 0), min(q.ID, 0)), cmp.Compare(p.Shard, q.Shard), cmp.Compare(p.ID, q.ID))
}

// idIn returns the id that separates the jobs of a shard due at p.At: those with greater ids follow p.
func (p position) idIn(shard int16) int64 {
	switch {
	case p.ID >= 0 && shard < p.Shard:
		return maxID
	case p.ID >= 0 && shard == p.Shard:
		return p.ID
	}
	return -1
}

// paged cuts items to the limit; if more items follow, the page's Next is the position of its last item.
func paged[T any](list string, items []T, f futurejobs.Filter, where func(T) position) futurejobs.Page[T] {
	n := limit(f)
	if len(items) <= n {
		return futurejobs.Page[T]{Items: items}
	}
	last := where(items[n-1])
	last.List = list
	return futurejobs.Page[T]{Items: items[:n:n], Next: last.cursor()}
}
