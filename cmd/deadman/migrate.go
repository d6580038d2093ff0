package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/internal/store"
	"deadman/web"
)

func (p *cli) migrateCommand() *cobra.Command {
	var check, force bool
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the schema of the database up to date, without serving",
		Long: `Applies the migrations that this program knows and the database does not have, as serve does at its
start, and ends: for a job before a rollout. The settings are those of serve.

A node works with the schema that its program knows and with the next version. Where a live node
could not follow, nothing is applied and the exit code is 1: stop or replace the nodes that are
named. --force leaves them behind; they hand their shards to newer nodes, and decide nothing more.

--check applies nothing. Its exit code is 0 where the schema is up to date, and 3 where migrations
are pending.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check && force {
				return usage("--check and --force do not go together: --check applies nothing")
			}
			r, err := resolve(cmd.Flags(), p.env)
			if err != nil {
				return err
			}
			o := store.Options{DatabaseURL: r.DatabaseURL, DataDir: r.DataDir, Shards: r.Shards, Log: newLog(p.err, p.getenv("NO_COLOR") == "", r)}
			if check {
				return p.checkSchema(cmd.Context(), o)
			}
			return p.migrate(cmd.Context(), o, force)
		},
	}
	addSettingsTo(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "apply nothing; exit code 3 where migrations are pending")
	cmd.Flags().BoolVar(&force, "force", false, "apply also what a live node cannot follow")
	return cmd
}

// schemaState is the schema of a database for output.
type schemaState struct {
	Version int64          `json:"version"` // version of the database
	Known   int64          `json:"known"`   // newest version known to this program
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
	UpTo      int64     `json:"works_up_to"`
	Blocks    bool      `json:"blocks"`
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

func (p *cli) checkSchema(ctx context.Context, o store.Options) error {
	schema, err := store.ReadSchema(ctx, o)
	if err != nil {
		return err
	}
	if err := p.showSchema(schemaStateOf(schema)); err != nil {
		return err
	}
	if len(schema.Pending) > 0 {
		return silentError{exitCondition}
	}
	return nil
}

func (p *cli) migrate(ctx context.Context, o store.Options, force bool) error {
	before, after, err := store.Migrate(ctx, o, force)
	if err != nil {
		return err
	}
	state := schemaStateOf(after)
	state.Applied = slices.Clone(before.Pending)
	return p.showSchema(state)
}

func (p *cli) showSchema(s schemaState) error {
	if p.output == asJSON {
		return writeValue(p.out, s)
	}
	fmt.Fprintf(p.out, "schema version %d; this program knows version %d and works with %d, too\n", s.Version, s.Known, s.Known+1)
	switch {
	case len(s.Applied) > 0:
		fmt.Fprintf(p.out, "applied: %s\n", strings.Join(s.Applied, ", "))
	case len(s.Pending) == 0:
		fmt.Fprintln(p.out, "nothing to apply")
	default:
		fmt.Fprintf(p.out, "pending: %s\n", strings.Join(s.Pending, ", "))
	}
	if len(s.Nodes) == 0 {
		_, err := fmt.Fprintln(p.out, "no node is live")
		return err
	}
	t := newTable(p.out, p.palette, "live node", "version", "started", "works up to", "")
	for _, n := range s.Nodes {
		blocks := cellOf("")
		if n.Blocks {
			blocks = colouredCell(red, "cannot follow; stop or replace it first")
		}
		t.row(colouredCell(bold, n.Name), cellOf(n.Version), cellOf(web.Relative(n.StartedAt, p.now())), sayNumber(n.UpTo), blocks)
	}
	return t.fit(terminalWidth(p.out)).end()
}
