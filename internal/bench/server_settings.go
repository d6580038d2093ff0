package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// setting is a setting as reported by a server, in the setting's unit.
type setting struct {
	value  string
	number int64
	can    []string // possible values of an enum
}

// SettingAdvice is a recommendation for a setting of a Postgres.
type SettingAdvice struct {
	Problem string // with the setting's value
	Remedy  string // such as "set fsync = on"
	Unsafe  bool   // a crash loses committed data
}

// String returns the advice as sentences.
func (a SettingAdvice) String() string {
	return a.Problem + ". " + strings.ToUpper(a.Remedy[:1]) + a.Remedy[1:] + "."
}

// Advice returns recommendations for settings of a Postgres that cost performance or reduce durability, in sentences.
func Advice(ctx context.Context, database string) (advice []string, err error) {
	defer func() { err = called(ctx, err) }()
	conn, err := connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }() // read-only connection
	all, err := ServerAdvice(ctx, conn)
	for _, a := range all {
		advice = append(advice, a.String())
	}
	return advice, err
}

// ServerAdvice returns the recommendations of Advice for the server of a connection.
func ServerAdvice(ctx context.Context, conn *pgx.Conn) ([]SettingAdvice, error) {
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

func advise(settings map[string]setting) (advice []SettingAdvice) {
	add := func(applies, unsafe bool, problem, remedy string) {
		if applies {
			advice = append(advice, SettingAdvice{problem, remedy, unsafe})
		}
	}
	off := func(name string) bool { return settings[name].value == "off" }
	add(off("fsync"), true, "fsync is off: committed data can be lost, and a benchmark does not apply to a durable server", "set fsync = on")
	add(off("full_page_writes"), true, "full_page_writes is off: a crash of the machine can leave torn pages, and a benchmark does not apply to a durable server", "set full_page_writes = on")
	add(off("synchronous_commit"), true, "synchronous_commit is off: a crash loses the last commits, including alerts", "set synchronous_commit = on")
	add(off("wal_compression"), false, "wal_compression is off: each due job on a separate page can cost a whole page of log", "set wal_compression = "+compression(settings["wal_compression"]))
	if s, known := settings["max_wal_size"]; known {
		add(s.number < leastWAL, false, fmt.Sprintf("max_wal_size is %d MB: a large slot forces checkpoints, after each of which whole pages are logged", s.number), "set max_wal_size = 8GB, if the disk has space")
	}
	if s, known := settings["checkpoint_timeout"]; known {
		add(s.number < leastTimeout, false, fmt.Sprintf("checkpoint_timeout is %d s: the first change of a page after each checkpoint logs all of it", s.number), "set checkpoint_timeout = 30min; a crash then takes longer to recover from")
	}
	if s, known := settings["shared_buffers"]; known {
		add(s.number < leastBuffers, false, fmt.Sprintf("shared_buffers is %d MB: pages are written and read repeatedly", s.number*8>>10), "set shared_buffers to a quarter of the memory")
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
