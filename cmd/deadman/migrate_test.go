package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestMigrate checks that the schema of a missing database is pending: --check creates nothing, and migrate does.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"sqlite":   {"DEADMAN_DATA_DIR=" + filepath.Join(t.TempDir(), "data")},
		"postgres": {"DEADMAN_DATABASE_URL=" + postgres(t).DSN},
	} {
		t.Run(name, func(t *testing.T) {
			runBinary(t, env, "migrate", "--check").check(t, []string{"check"}, exitCondition, "schema version 0;", "pending: 00001_spine.sql", "no live nodes")
			if _, err := os.Stat(env[0][len("DEADMAN_DATA_DIR="):]); name == "sqlite" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("to check made the folder: %v", err)
			}
			runBinary(t, env, "migrate").check(t, []string{"migrate"}, exitOK, "applied: 00001_spine.sql")
			runBinary(t, env, "migrate").check(t, []string{"migrate again"}, exitOK, "schema is up to date")
			got := runBinary(t, env, "migrate", "--check", "-o", "json")
			var state schemaState
			if err := json.Unmarshal([]byte(got.out), &state); got.code != exitOK || err != nil {
				t.Fatalf("%+v: %v", got, err)
			}
			if state.Version == 0 || state.Version != state.Known || len(state.Pending) > 0 || state.Blocked {
				t.Errorf("%+v", state)
			}
		})
	}
	runBinary(t, nil, "migrate", "--check", "--force").check(t, []string{"both"}, exitUsage, "mutually exclusive")
	runBinary(t, []string{"DEADMAN_DATABASE_URL=postgres://127.0.0.1:1/none"}, "migrate", "--check").check(t, []string{"absent"}, exitFailure, "is it running")
}
