package alerts

import "time"

// Mute keeps alerts from people for a while. The stream has them all the same.
type Mute struct {
	ID        int64
	Match     Match
	Reason    string
	CreatedAt time.Time
	CreatedBy string
	EndsAt    time.Time
	EndedBy   string // who ended it before its time; empty: nobody
}

// Live reports whether it mutes at an instant.
func (m Mute) Live(now time.Time) bool { return now.Before(m.EndsAt) }
