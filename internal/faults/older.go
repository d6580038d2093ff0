// Package faults breaks real nodes, databases and brokers, and checks with independent queries that every promise was
// kept.
package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrShallow means that a shallow clone lacks the commits from which older versions are built.
var ErrShallow = errors.New("the clone is shallow, and tests build an older version from its history: git fetch --unshallow")

// Older builds the last commit whose schema is one version older than that of the sources in repo, with failpoints. The
// program stays in the folder bin of repo, and is built once for each commit. Older returns ErrShallow if the commit is
// missing.
func Older(ctx context.Context, repo string) (program string, err error) {
	commit, err := olderCommit(ctx, repo)
	if err != nil {
		return "", err
	}
	program = filepath.Join(repo, "bin", "older", commit, "deadman")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	sources, err := os.MkdirTemp("", "deadman-older-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(sources)) }()
	archive := filepath.Join(sources, "sources.tar")
	if _, err := git(ctx, repo, "archive", "--format=tar", "--output="+archive, commit); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", sources).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack %s: %w\n%s", commit, err, out)
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return "", err
	}
	// A build of another process or one that is cut never leaves a part of a program at its place.
	building, err := os.MkdirTemp(filepath.Dir(program), "building-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(building)) }()
	built, err := filepath.Abs(filepath.Join(building, "deadman"))
	if err != nil {
		return "", err
	}
	if err := Build(ctx, sources, built, "-tags", "faultpoints"); err != nil {
		return "", err
	}
	return program, os.Rename(built, program)
}

// olderCommit returns the last commit whose schema is one version older than that of the sources in repo.
func olderCommit(ctx context.Context, repo string) (string, error) {
	newest, err := NewestMigration(repo)
	if err != nil {
		return "", err
	}
	if shallow, err := git(ctx, repo, "rev-parse", "--is-shallow-repository"); err != nil || shallow == "true" {
		return "", errors.Join(ErrShallow, err)
	}
	migration := "migrations/postgres/" + newest
	added, err := git(ctx, repo, "log", "--format=%H", "--diff-filter=A", "--", migration)
	if err != nil {
		return "", err
	}
	before := "HEAD" // the newest migration is not committed yet
	if commits := strings.Fields(added); len(commits) > 0 {
		before = commits[len(commits)-1] + "^"
	}
	if has, err := git(ctx, repo, "ls-tree", "--name-only", before, "--", migration); err != nil || has != "" {
		return "", errors.Join(fmt.Errorf("commit %s has the newest migration %s already", before, newest), err)
	}
	return git(ctx, repo, "rev-parse", "--verify", before)
}

// Build builds the program from the sources in a folder. The flags are those of other builds of the tests, so that the
// dependencies are compiled once.
func Build(ctx context.Context, sources, program string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-buildvcs=false", "-o", program}, flags...), "./cmd/deadman")...)
	cmd.Dir = sources
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build in %s: %w\n%s", sources, err, out)
	}
	return nil
}

// NewestMigration returns the name of the newest migration of the sources in repo.
func NewestMigration(repo string) (string, error) {
	files, err := filepath.Glob(filepath.Join(repo, "migrations", "postgres", "*.sql"))
	if err != nil || len(files) == 0 {
		return "", errors.Join(fmt.Errorf("%s has no migrations", repo), err)
	}
	return filepath.Base(slices.Max(files)), nil
}

// git runs git in a repository and returns its output.
func git(ctx context.Context, repo string, args ...string) (string, error) {
	repo, err := filepath.Abs(repo)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*", "-C", repo}, args...)...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s\ntests build an older version from the history, so they need git and a clone",
			strings.Join(args, " "), err, failure.String())
	}
	return strings.TrimSpace(string(out)), nil
}
