package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"deadman/internal/backup"
	"deadman/internal/bus"
	"deadman/internal/store"
)

func newBackupCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Back up the data folder of a node with nothing configured",
		Long: `Writes the database, the streams and the secrets of NATS users of a data folder into one file, a
compressed tar archive. A node may run on the folder: it continues to work. A stopped node stays
stopped. Run it as the user of the node, with its settings. FILE must not exist; - is the standard
output. The copy of the database and the messages of the streams are checked.

The file contains events, tokens' hashes and addresses of pings, and only its user can read it.
A database on Postgres is backed up with the tools of Postgres.`,
		Example: `  deadman backup deadman-$(date +%F).tar.gz
  docker exec node deadman backup - > deadman.tar.gz`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := embeddedSettings(cmd, io)
			if err != nil {
				return err
			}
			return saveBackup(cmd.Context(), io, backup.Folder{Dir: r.DataDir, URL: func() (string, error) { return adminURL(r.DataDir) }}, args[0])
		},
	}
	addSettingsTo(cmd)
	return cmd
}

func newRestoreCmd(io *cli) *cobra.Command {
	var only string
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Restore a backup to an empty data folder, or its database alone",
		Long: `Creates the data folder of a node from a file of deadman backup. The folder (--data-dir) must be
missing or empty. FILE may be - for the standard input. A damaged or incomplete file restores
nothing.

With --only database it replaces the database in the folder of a stopped node, and keeps the newer
streams: the node applies the events after the backup again. The former database stays beside it,
as deadman.db.before-restore. Streams that are older than the backup are refused.

The node that starts on the folder raises an alert with the time of the backup: what happened
later is not in it.`,
		Example: `  deadman restore deadman-2026-11-28.tar.gz --data-dir restored
  deadman serve --data-dir restored
  deadman restore deadman-2026-11-28.tar.gz --only database --data-dir /var/lib/deadman`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if only != "" && only != onlyDatabase {
				return usage("--only %s: the one part that can be restored alone is %s", only, onlyDatabase)
			}
			r, err := embeddedSettings(cmd, io)
			if err != nil {
				return err
			}
			return restoreBackup(cmd.Context(), io, args[0], r, only)
		},
	}
	addSettingsTo(cmd)
	cmd.Flags().StringVar(&only, "only", "", "restore this part alone: database")
	return cmd
}

// onlyDatabase is the part of a backup that can be restored alone.
const onlyDatabase = "database"

// embeddedSettings returns the settings of a node with an embedded database.
func embeddedSettings(cmd *cobra.Command, io *cli) (serveConfig, error) {
	r, err := resolve(cmd.Flags(), io.env)
	if err == nil && r.DatabaseURL != "" {
		err = usage("the database is on Postgres (database_url): back it up with pg_dump, pg_basebackup or pgBackRest, and the streams with `nats account backup`")
	}
	r.DataDir = cmp.Or(r.DataDir, "deadman-data")
	return r, err
}

// adminURL returns the address of the running node's NATS server with the user that may copy streams.
func adminURL(dir string) (string, error) {
	at, file, err := readEndpoints(dir)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(at.NATS)
	if err != nil || at.NATS == "" {
		return "", fmt.Errorf("%s names no NATS server; is the node still starting?", file)
	}
	if at.NATSUsers == "" { // started with --insecure
		return u.String(), nil
	}
	secret, err := readOwn(filepath.Join(dir, bus.UsersDir), bus.UserAdmin, 1<<10)
	if err != nil {
		return "", err
	}
	u.User = url.UserPassword(bus.UserAdmin, strings.TrimSpace(string(secret)))
	return u.String(), nil
}

// backupSummary is the output of backup and restore.
type backupSummary struct {
	File   string        `json:"file"`
	Folder string        `json:"folder"`
	Bytes  int64         `json:"bytes"`                     // of the file
	Former string        `json:"former_database,omitempty"` // path of the database that a restore replaced
	Header backup.Header `json:"backup"`
	backup.Contents
}

func saveBackup(ctx context.Context, io *cli, from backup.Folder, to string) error {
	out, err := createFile(io.out, to)
	if err != nil {
		return err
	}
	defer out.discard()
	s := backupSummary{File: to, Folder: from.Dir}
	s.Header, s.Contents, err = backup.Save(ctx, out, from, out.folder(), version)
	if errors.Is(err, fs.ErrNotExist) {
		return usage("%s has no database; name the data folder of the node with --data-dir", from.Dir)
	}
	if err != nil {
		return fmt.Errorf("backup of %s: %w", from.Dir, err)
	}
	if s.Bytes, err = out.complete(); err != nil {
		return err
	}
	text := io.out
	if to == stdStream {
		text = io.err // the standard output has the file
	}
	return printBackup(io, text, s, fmt.Sprintf("%s: %s as of %s", to, from.Dir, io.exact(s.Header.At)))
}

func restoreBackup(ctx context.Context, io *cli, from string, r serveConfig, only string) (err error) {
	in, size := io.input, int64(0)
	if from != stdStream {
		f, err := os.Open(from)
		if err != nil {
			return usage("%w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		in, size = f, info.Size()
	}
	s := backupSummary{File: from, Folder: r.DataDir, Bytes: size}
	log := newLog(io.err, io.getenv("NO_COLOR") == "", r)
	if only == onlyDatabase {
		s.Header, s.Contents, s.Former, err = backup.RestoreDatabase(ctx, in, r.DataDir, log)
	} else {
		s.Header, s.Contents, err = backup.Restore(ctx, in, r.DataDir, log)
	}
	if err != nil {
		return restoreError(from, err)
	}
	title := fmt.Sprintf("%s: restored as of %s", r.DataDir, io.exact(s.Header.At))
	if only != "" {
		title = fmt.Sprintf("%s: database restored as of %s; the streams of the folder stay", r.DataDir, io.exact(s.Header.At))
		s.Streams, s.InMemory = nil, nil
	}
	if err := printBackup(io, io.out, s, title); err != nil || io.output == asJSON {
		return err
	}
	_, err = fmt.Fprintf(io.out, "Start the node: deadman serve --data-dir %s\n", r.DataDir)
	return err
}

// restoreError returns an error with its remedy.
func restoreError(from string, err error) error {
	switch {
	case errors.Is(err, backup.ErrNotEmpty):
		return usage("%w; restore to another folder with --data-dir, move this one away, or replace its database alone with --only database", err)
	case errors.Is(err, backup.ErrNoFolder):
		return usage("%w; name the data folder of the node with --data-dir, or restore all without --only", err)
	case errors.Is(err, backup.ErrFormerDatabase):
		return usage("%w; move it away, with its -wal and -shm, once the node works", err)
	case errors.Is(err, backup.ErrOlderStreams):
		return fmt.Errorf("restore %s, nothing was changed: %w; restore all of the backup to an empty folder, without --only", from, err)
	case errors.Is(err, store.ErrLocked):
		return usage("%w", err)
	}
	return fmt.Errorf("restore %s, nothing was restored: %w", from, err)
}

// printBackup prints the contents of an archive.
func printBackup(io *cli, out io.Writer, s backupSummary, title string) error {
	if io.output == asJSON {
		return writeValue(out, s)
	}
	fmt.Fprintln(out, sanitize(title))
	if s.Bytes > 0 {
		fmt.Fprintf(out, "file: %s\n", humanize.IBytes(uint64(s.Bytes)))
	}
	fmt.Fprintf(out, "database: %s\n", humanize.IBytes(uint64(s.DatabaseBytes))) //nolint:gosec // not negative
	if s.Former != "" {
		fmt.Fprintf(out, "former database: %s; remove it once the node works\n", sanitize(s.Former))
	}
	if s.Streams != nil && len(s.Streams) == 0 {
		fmt.Fprintln(out, "streams: none in the folder")
	}
	for _, stream := range s.Streams {
		fmt.Fprintf(out, "stream %s: %s\n", sanitize(stream.Name), number(int(stream.Messages), "message")) //nolint:gosec // not that many
	}
	for _, name := range s.InMemory {
		fmt.Fprintf(io.err, "warning: stream %s is kept in memory and is not in the backup\n", sanitize(name))
	}
	return nil
}
