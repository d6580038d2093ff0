package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"deadman/internal/doctor"
)

func newDoctorCmd(io *cli) *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check what a node depends on, before an incident does",
		Long: `Checks the settings, the files that they name, the database, the NATS servers and streams, the
permissions of the NATS user, the sources, the channels, the certificates and the machine. It
changes nothing, no program gets a message from it, and it needs no running node. The settings are
those of serve: run it as the user of the nodes, with their environment.

A check is ok, a warning (a node works, and an incident costs more than it has to), failed (a node
does not start, or loses data) or unknown (it could not be made). The exit code is 3 if a check
failed or is unknown. Without --all, checks that are ok are counted only.

A running node on an embedded database holds its file: deadman status shows its conditions.`,
		Example: `  deadman doctor --all
  deadman doctor -o json | jq '.findings[] | select(.state != "ok")'`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := resolve(cmd.Flags(), io.env)
			if err != nil {
				return err
			}
			r.Env, r.Log = io.getenv, newLog(io.err, io.getenv("NO_COLOR") == "", r)
			findings := doctor.Inspect(cmd.Context(), r.Config)
			if err := printDiagnosis(io, findings, verbose); err != nil {
				return err
			}
			switch doctor.Worst(findings) {
			case doctor.Failed, doctor.Unknown:
				return unmetDiagnose.err()
			}
			return nil
		},
	}
	addSettingsTo(cmd)
	cmd.Flags().BoolVar(&verbose, "all", false, "list checks that are ok, too")
	return cmd
}

// stateColours has the colour of each state.
var stateColours = map[doctor.State]colour{doctor.OK: green, doctor.Warning: yellow, doctor.Unknown: pink, doctor.Failed: red}

// printDiagnosis prints a paragraph for each finding, and their numbers by state.
func printDiagnosis(io *cli, findings []doctor.Finding, all bool) error {
	if io.output == asJSON {
		return writeValue(io.out, map[string]any{"state": doctor.Worst(findings), "findings": findings})
	}
	counts := map[doctor.State]int{}
	for _, f := range findings {
		counts[f.State]++
		if f.State == doctor.OK && !all {
			continue
		}
		state := io.palette.paint(stateColours[f.State], fmt.Sprintf("%-8s", f.State))
		fmt.Fprintf(io.out, "%s %s: %s\n", state, io.palette.paint(bold, sanitize(f.Check)), strings.ReplaceAll(plainLines(f.Detail), "\n", "\n         "))
		if f.Remedy != "" {
			fmt.Fprintf(io.out, "%8s %s\n", "", sanitize(f.Remedy))
		}
	}
	var parts []string
	for _, s := range []doctor.State{doctor.Failed, doctor.Unknown, doctor.Warning, doctor.OK} {
		if counts[s] > 0 {
			name := string(s)
			if s == doctor.Warning && counts[s] > 1 {
				name += "s"
			}
			parts = append(parts, io.palette.paint(stateColours[s], fmt.Sprintf("%d %s", counts[s], name)))
		}
	}
	_, err := fmt.Fprintf(io.out, "%d checks: %s\n", len(findings), strings.Join(parts, ", "))
	return err
}
