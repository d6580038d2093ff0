package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// ErrForeignLog means that the write-ahead log beside the database is of another file. SQLite would apply it and damage the
// database.
var ErrForeignLog = errors.New("the write-ahead log does not belong to the database")

const (
	logSuffix     = "-wal"
	logHeaderSize = 32
	// maxCheckpoint bounds the time from the last commit, which writes the log, to the end of the checkpoint after it, which
	// writes the database. A node commits every few seconds.
	maxCheckpoint = time.Minute
)

// checkLog refuses a database with the write-ahead log of another one. A node that stops removes the log, and a crash leaves
// it: then the database was not written after the log, but for the last checkpoint. A database that is restored or copied to
// its place is newer than the log that stayed. checkpoint is the longest time of the last one.
func checkLog(file string, checkpoint time.Duration) error {
	log := file + logSuffix
	info, err := os.Stat(log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Size() <= logHeaderSize { // it has no commits
		return err
	}
	database, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && database.Size() == 0 {
		return fmt.Errorf("%w: %s is there, and %s is missing or empty; restore the database, and move the log away unless both are of the same copy", ErrForeignLog, log, file)
	}
	if err != nil {
		return err
	}
	written, err := changedAt(file)
	if err != nil {
		return err
	}
	logged, err := changedAt(log)
	if err != nil {
		return err
	}
	if written.Sub(logged) > checkpoint {
		return fmt.Errorf("%w: %s was put in its place at %s, after the last commit of %s at %s; if the database was restored or copied, move the log and %s-shm away. "+
			"If both are of the same copy, run touch %s", ErrForeignLog, file, written.UTC().Format(time.RFC3339), log, logged.UTC().Format(time.RFC3339), file, log)
	}
	return nil
}
