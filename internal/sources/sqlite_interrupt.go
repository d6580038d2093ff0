package sources

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// interruptEvery is the time between two interrupts of a statement.
const interruptEvery = 20 * time.Millisecond

// sqliteHandle is the handle of a connection, for interrupts.
type sqliteHandle uintptr

// handleOf returns the handle of a connection. The driver has no function for it.
func handleOf(c *sql.Conn) (handle sqliteHandle, err error) {
	err = c.Raw(func(connection any) error {
		field := reflect.Indirect(reflect.ValueOf(connection)).FieldByName("db")
		if field.Kind() != reflect.Uintptr {
			return fmt.Errorf("the SQLite driver (%T) has no handle of the connection", connection)
		}
		handle = sqliteHandle(field.Uint())
		return nil
	})
	return handle, err
}

// interruptAfter interrupts the statements of a connection from the end of a context on, until stop is called, which comes
// before the next statement and before the connection is closed. The driver interrupts once: SQLite forgets an interrupt
// that comes before the statement runs, and the statement would never end.
func (h sqliteHandle) interruptAfter(ctx context.Context) (stop func()) {
	ended, over := make(chan struct{}), make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(over)
		thread := libc.NewTLS() // that of the connection is in use
		defer thread.Close()
		for {
			sqlite3.Xsqlite3_interrupt(thread, uintptr(h))
			select {
			case <-ended:
				return
			case <-time.After(interruptEvery):
			}
		}
	})
	return func() {
		if !cancel() { // the context has ended
			close(ended)
			<-over
		}
	}
}
