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

// Older builds the last commit whose schema is one version older than that of the sources in repo, into a new folder in
// dir. flags are additional flags of go build. It returns ErrShallow if the commit is missing.
func Older(ctx context.Context, repo, dir string, flags ...string) (program string, err error) {
	newest, err := NewestMigration(repo)
	if err != nil {
		return "", err
	}
	if shallow, err := git(ctx, repo, "rev-parse", "--is-shallow-repository"); err != nil || shallow == "true" {
		return "", errors.Join(ErrShallow, err)
	}
	added, err := git(ctx, repo, "log", "--format=%H", "--diff-filter=A", "--", "migrations/postgres/"+newest)
	if err != nil {
		return "", err
	}
	commit := "HEAD" // the newest migration is not committed yet
	if commits := strings.Fields(added); len(commits) > 0 {
		commit = commits[len(commits)-1] + "^"
	}
	sources, err := os.MkdirTemp(dir, "older-")
	if err != nil {
		return "", err
	}
	archive := filepath.Join(sources, "sources.tar")
	if _, err := git(ctx, repo, "archive", "--format=tar", "--output="+archive, commit); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", sources).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack %s: %w\n%s", commit, err, out)
	}
	if _, err := os.Stat(filepath.Join(sources, "migrations", "postgres", newest)); err == nil {
		return "", fmt.Errorf("commit %s has the newest migration %s already", commit, newest)
	}
	return Build(ctx, sources, filepath.Join(sources, "deadman"), flags...)
}

// Build builds the program from the sources in a folder. The path of the folder is not part of the program, so the
// build cache is shared with other folders.
func Build(ctx context.Context, sources, program string, flags ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-buildvcs=false", "-trimpath", "-o", program}, flags...), "./cmd/deadman")...)
	cmd.Dir = sources
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build in %s: %w\n%s", sources, err, out)
	}
	return program, nil
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
