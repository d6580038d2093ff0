package main

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newAlertCloseCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "close ID | close RULE KEY", Short: "Close an alert with a reason: cancel its job, or close an alert about lost data", Args: idOrJob,
		ValidArgsFunction: completeRule(io),
		Long: `Closes an alert. The job of the alert is cancelled, and the alert is resolved. The key of a
heartbeat is watched on: its interval starts again. An alert about
lost data, such as a deleted stream, is open until it is closed. Alerts of outages and of
conditions of the node close by themselves. The audit log keeps the reason.`,
		Example: `  deadman alert close 6c8e0b1d --reason "shipped by hand"
  deadman alert close order-unshipped 1042 --reason "customer cancelled by phone"`,
	}
	reason := cmd.Flags().String("reason", "", "reason, kept in the history and the audit log (required)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *reason == "" {
			return usage("%s requires --reason", commandName(cmd))
		}
		c, id, err := namedAlert(io, cmd, args)
		if err != nil {
			return err
		}
		body, err := json.Marshal(web.CloseRequest{Reason: *reason})
		if err != nil {
			return err
		}
		header := http.Header{"Content-Type": {"application/json"}}
		if _, err := c.request(cmd.Context(), http.MethodPost, "/alerts/"+id.String()+"/close", nil, body, header); err != nil {
			return err
		}
		return io.report(map[string]string{"alert": id.String(), "outcome": "closed"}, "closed: alert %s\n", id)
	}
	return cmd
}
