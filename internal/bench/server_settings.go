package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// setting is a setting as reported by a server, in the setting's unit.
type setting struct {
	value  string
	number int64
	can    []string // possible values of an enum
}

// Advice returns recommendations for settings of a Postgres that cost performance or reduce durability, a sentence
// each.
func Advice(ctx context.Context, database string) (advice []string, err error) {
	defer func() { err = called(ctx, err) }()
	conn, err := connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }() // read-only connection
	rows, err := conn.Query(ctx, `SELECT name, setting, enumvals FROM pg_settings
		WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'wal_compression', 'max_wal_size', 'checkpoint_timeout', 'shared_buffers')`)
	if err != nil {
		return nil, err
	}
	settings := map[string]setting{}
	var name string
	var s setting
	if _, err := pgx.ForEachRow(rows, []any{&name, &s.value, &s.can}, func() error {
		s.number, _ = strconv.ParseInt(s.value, 10, 64) // not a number for text settings
		settings[name] = s
		return nil
	}); err != nil {
		return nil, err
	}
	return advise(settings), nil
}

// The recommended minimum values of a server with many jobs, in the units of the server.
const (
	leastWAL     = 4 << 10               // MB
	leastTimeout = 15 * 60               // s
	leastBuffers = 512 << 20 / (8 << 10) // pages
)

func advise(settings map[string]setting) (advice []string) {
	add := func(applies bool, format string, args ...any) {
		if applies {
			advice = append(advice, fmt.Sprintf(format, args...))
		}
	}
	off := func(name string) bool { return settings[name].value == "off" }
	add(off("fsync"), "fsync is off: committed data can be lost, and the results do not apply to a durable server. Set fsync = on.")
	add(off("full_page_writes"), "full_page_writes is off: a crash of the machine can leave torn pages, and the results do not apply to a durable server. Set full_page_writes = on.")
	add(off("synchronous_commit"), "synchronous_commit is off: a crash loses the last commits, including alerts. Set synchronous_commit = on.")
	add(off("wal_compression"), "wal_compression is off: each due job on a separate page can cost a whole page of log. Set wal_compression = %s.", compression(settings["wal_compression"]))
	if s, known := settings["max_wal_size"]; known {
		add(s.number < leastWAL, "max_wal_size is %d MB: a large slot forces checkpoints, after each of which whole pages are logged. Set max_wal_size = 8GB, if the disk has space.", s.number)
	}
	if s, known := settings["checkpoint_timeout"]; known {
		add(s.number < leastTimeout, "checkpoint_timeout is %d s: the first change of a page after each checkpoint logs all of it. Set checkpoint_timeout = 30min; a crash then takes longer to recover from.", s.number)
	}
	if s, known := settings["shared_buffers"]; known {
		add(s.number < leastBuffers, "shared_buffers is %d MB: pages are written and read repeatedly. Set shared_buffers to a quarter of the memory.", s.number*8>>10)
	}
	return advice
}

// compression returns the best supported compression.
func compression(s setting) string {
	for _, best := range []string{"lz4", "pglz"} {
		if slices.Contains(s.can, best) {
			return best
		}
	}
	return "on"
}
