package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"deadman/internal/bus"
	"deadman/internal/store"
)

// Save writes an archive of a folder to w. temp is a folder with room for the database and the largest stream. A folder
// without a database is fs.ErrNotExist. An error leaves an incomplete archive.
func Save(ctx context.Context, w io.Writer, from Folder, temp, version string) (h Header, c Contents, err error) {
	if _, err := os.Stat(filepath.Join(from.Dir, store.DatabaseFile)); err != nil {
		return h, c, err // before the folder is locked, which would create it
	}
	streams, done, err := from.open()
	if err != nil {
		return h, c, err
	}
	defer func() { err = errors.Join(err, done()) }()
	copies, err := os.MkdirTemp(temp, ".deadman-backup-*")
	if err != nil {
		return h, c, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(copies)) }()
	s := &saver{archive: newArchive(w), temp: copies}
	h, c, err = s.save(ctx, from.Dir, streams, version)
	if err == nil {
		err = s.close()
	}
	return h, c, err
}

// saver writes one archive.
type saver struct {
	*archive
	temp string // folder of copies
}

func (s *saver) save(ctx context.Context, dir string, streams *bus.Snapshots, version string) (h Header, c Contents, err error) {
	database := filepath.Join(s.temp, store.DatabaseFile)
	at, err := store.CopyFile(ctx, dir, database)
	if err != nil {
		return h, c, err
	}
	h, s.at = Header{Format: format, Version: version, At: at.UTC()}, at
	if err := s.value(headerEntry, h); err != nil {
		return h, c, err
	}
	if c.DatabaseBytes, err = s.copied(databaseEntry, database); err != nil {
		return h, c, err
	}
	if err := s.users(filepath.Join(dir, bus.UsersDir)); err != nil {
		return h, c, err
	}
	c.Streams = []Stream{}
	if streams != nil {
		if c.Streams, c.InMemory, err = s.streams(ctx, streams); err != nil {
			return h, c, err
		}
	}
	return h, c, s.value(contentsEntry, c)
}

// copied adds a file, and removes it.
func (s *saver) copied(entry, file string) (size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(file)) }()
	if err := s.file(entry, f); err != nil {
		return 0, fmt.Errorf("%s: %w", entry, err)
	}
	return f.Seek(0, io.SeekCurrent)
}

// users adds the secrets of the NATS server's users. A folder without them is one of a node with another server.
func (s *saver) users(dir string) error {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, file := range files {
		if !isUser(file.Name()) {
			continue
		}
		f, err := os.Open(filepath.Join(dir, file.Name()))
		if err != nil {
			return err
		}
		if err := errors.Join(s.file(usersFolder+file.Name(), f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// streams adds all streams in files.
func (s *saver) streams(ctx context.Context, from *bus.Snapshots) (saved []Stream, inMemory []string, err error) {
	inFiles, inMemory, err := from.Streams(ctx)
	if err != nil {
		return nil, nil, err
	}
	saved = make([]Stream, 0, len(inFiles))
	for _, name := range inFiles {
		snapshot, err := s.stream(ctx, from, name)
		if err != nil {
			return nil, nil, err
		}
		messages, err := snapshot.Messages()
		if err != nil {
			return nil, nil, err
		}
		saved = append(saved, Stream{name, messages})
	}
	return saved, inMemory, nil
}

func (s *saver) stream(ctx context.Context, from *bus.Snapshots, name string) (snapshot bus.Snapshot, err error) {
	file := filepath.Join(s.temp, "stream")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return snapshot, err
	}
	snapshot, err = from.Save(ctx, name, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return snapshot, err
	}
	if err := s.value(streamsFolder+name+streamSuffix, snapshot); err != nil {
		return snapshot, err
	}
	_, err = s.copied(streamsFolder+name+copySuffix, file)
	return snapshot, err
}
