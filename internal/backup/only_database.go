package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/store"
)

var (
	// ErrNoFolder means that there is no data folder whose database could be replaced.
	ErrNoFolder = errors.New("there is no data folder")
	// ErrOlderStreams means that the streams of the folder end before those of the backup: events that they get later would
	// have sequences that the database has applied.
	ErrOlderStreams = errors.New("the streams of the folder are older than the backup")
	// ErrFormerDatabase means that the folder still has the database of before an earlier restore.
	ErrFormerDatabase = errors.New("the folder has a database of before a restore")
)

// formerSuffix is part of the name of a replaced database.
const formerSuffix = ".before-restore"

// logSuffixes are the ends of the names of SQLite's files beside a database: its write-ahead log and the index of that.
var logSuffixes = []string{"-wal", "-shm"}

// RestoreDatabase replaces the database of a stopped node's data folder by that of an archive. The streams and the secrets of
// NATS users stay: the node reads the events after the backup again. former is the path of the replaced database, which stays
// with its write-ahead log; empty: there was none. The folder is locked all the time, so that no node starts on it meanwhile.
// After an error the folder is as before. The errors are those of Restore, store.ErrLocked for a running node, ErrNoFolder,
// ErrOlderStreams and ErrFormerDatabase.
func RestoreDatabase(ctx context.Context, r io.Reader, dir string, log *slog.Logger) (h Header, c Contents, former string, err error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return h, c, "", fmt.Errorf("%w: %s", ErrNoFolder, dir)
	}
	lock, err := store.LockFolder(dir)
	if err != nil {
		return h, c, "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	file := filepath.Join(dir, databaseEntry)
	if _, err := os.Stat(file + formerSuffix); err == nil {
		return h, c, "", fmt.Errorf("%w: %s", ErrFormerDatabase, file+formerSuffix)
	}
	u := &unpacker{dir: dir, log: log, only: true}
	if err := os.RemoveAll(u.databaseFolder()); err != nil { // of a restore that was killed
		return h, c, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(u.databaseFolder())) }()
	err = u.unpack(ctx, r)
	if err == nil {
		err = finisher{u}.finish(ctx)
	}
	if err != nil {
		return h, c, "", err
	}
	former, back, err := setAside(file)
	if err == nil {
		err = u.placeDatabase()
	}
	if err != nil {
		return h, c, "", errors.Join(err, back())
	}
	return u.header, u.contents, former, nil
}

// compare returns ErrOlderStreams if a stream of the folder ends before that of the archive.
func (u finisher) compare(ctx context.Context, b *bus.Bus) error {
	for _, saved := range u.saved {
		info, err := b.Streams.Info(ctx, saved.Name())
		if errors.Is(err, events.ErrGone) {
			return fmt.Errorf("%w: it has no stream %s", ErrOlderStreams, saved.Name())
		}
		if err != nil {
			return err
		}
		if last, err := saved.LastSeq(); err != nil || info.LastSeq < last {
			return errors.Join(err, fmt.Errorf("%w: stream %s ends at sequence %d, that of the backup at %d", ErrOlderStreams, saved.Name(), info.LastSeq, last))
		}
	}
	return nil
}

// setAside renames a database with its write-ahead log, the database first: a node that starts on a folder with a log alone
// refuses it. back undoes it.
func setAside(file string) (former string, back func() error, err error) {
	var moved []string // the ends of the names
	back = func() (err error) {
		for _, suffix := range moved {
			err = errors.Join(err, os.Rename(file+formerSuffix+suffix, file+suffix))
		}
		return err
	}
	for _, suffix := range append([]string{""}, logSuffixes...) {
		err := os.Rename(file+suffix, file+formerSuffix+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", back, err
		}
		if err == nil {
			moved = append(moved, suffix)
		}
		if err == nil && suffix == "" {
			former = file + formerSuffix
		}
	}
	return former, back, nil
}
