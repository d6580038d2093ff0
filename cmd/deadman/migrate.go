package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/internal/store"
)

func newMigrateCmd(io *cli) *cobra.Command {
	var check, force bool
	cmd := &cobra.Command{
		Use: "migrate", Short: "Migrate the database schema without starting a node",
		Long: `Applies pending database migrations, as serve does at startup, and exits. Use it as a step before a
rollout. The settings are those of serve.

A node supports the schema version of its program and the next one. If a live node does not
support the new schema, nothing is applied and the exit code is 1; stop or replace the listed
nodes. With --force the migrations are applied anyway; the outdated nodes hand their shards over
to newer nodes and stop checking jobs.

--check applies nothing. The exit code is 0 if the schema is up to date and 3 if migrations are
pending.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check && force {
				return usage("--check and --force are mutually exclusive")
			}
			r, err := resolve(cmd.Flags(), io.env)
			if err != nil {
				return err
			}
			if err := r.checkAddresses(); err != nil {
				return usageError{err}
			}
			o := store.Options{DatabaseURL: r.DatabaseURL, DataDir: r.DataDir, Shards: r.Shards, Log: newLog(io.err, io.getenv("NO_COLOR") == "", r)}
			if check {
				return checkSchema(cmd.Context(), io, o)
			}
			return migrateSchema(cmd.Context(), io, o, force)
		},
	}
	addSettingsTo(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "apply nothing; exit code 3 if migrations are pending")
	cmd.Flags().BoolVar(&force, "force", false, "apply migrations even if live nodes do not support them")
	return cmd
}

// schemaState is the schema of a database for output.
type schemaState struct {
	Version int64          `json:"version"`      // version of the database
	Known   int64          `json:"newest_known"` // newest version known to this program
	Applied []string       `json:"applied,omitempty"`
	Pending []string       `json:"pending"`
	Blocked bool           `json:"blocked"` // a live node could not follow
	Nodes   []followerNode `json:"nodes"`
}

// followerNode is a live node with the newest schema it works with.
type followerNode struct {
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	UpTo      int64     `json:"supports_up_to"`
	Blocks    bool      `json:"blocking"`
}

func schemaStateOf(s store.Schema) schemaState {
	behind := s.Behind()
	state := schemaState{Version: s.Applied, Known: s.Known, Pending: append([]string{}, s.Pending...), Blocked: len(behind) > 0, Nodes: []followerNode{}}
	for _, n := range s.Nodes {
		f := followerNode{Name: n.Name, Version: n.Version, StartedAt: n.StartedAt, UpTo: n.Schema + 1}
		for _, b := range behind {
			f.Blocks = f.Blocks || b.ID == n.ID
		}
		state.Nodes = append(state.Nodes, f)
	}
	return state
}

func checkSchema(ctx context.Context, io *cli, o store.Options) error {
	schema, err := store.ReadSchema(ctx, o)
	if err != nil {
		return err
	}
	if err := printSchema(io, schemaStateOf(schema)); err != nil {
		return err
	}
	if len(schema.Pending) > 0 {
		return unmetSchema.err()
	}
	return nil
}

func migrateSchema(ctx context.Context, io *cli, o store.Options, force bool) error {
	before, after, err := store.Migrate(ctx, o, force)
	if err != nil {
		return err
	}
	state := schemaStateOf(after)
	state.Applied = slices.Clone(before.Pending)
	return printSchema(io, state)
}

func printSchema(io *cli, s schemaState) error {
	if io.output == asJSON {
		return writeValue(io.out, s)
	}
	fmt.Fprintf(io.out, "schema version %d; this program requires version %d and supports up to %d\n", s.Version, s.Known, s.Known+1)
	switch {
	case len(s.Applied) > 0:
		fmt.Fprintf(io.out, "applied: %s\n", strings.Join(s.Applied, ", "))
	case len(s.Pending) == 0:
		fmt.Fprintln(io.out, "schema is up to date")
	default:
		fmt.Fprintf(io.out, "pending: %s\n", strings.Join(s.Pending, ", "))
	}
	if len(s.Nodes) == 0 {
		_, err := fmt.Fprintln(io.out, "no live nodes")
		return err
	}
	t := newTable(io.out, io.palette, "live node", "version", "started", "supports up to", "")
	for _, n := range s.Nodes {
		blocks := cellOf("")
		if n.Blocks {
			blocks = colouredCell(red, "schema not supported; stop or replace the node")
		}
		t.row(colouredCell(bold, n.Name), cellOf(n.Version), cellOf(io.relative(n.StartedAt)), numberCell(n.UpTo), blocks)
	}
	return t.fit(terminalWidth(io.out)).end()
}
