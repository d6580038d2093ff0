package web

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// Alert is an alert as it goes out: as consumers of the stream see it, and whether it is
// in the stream yet.
type Alert struct {
	SchemaVersion int `json:"schema_version"`
	alert
	Published bool `json:"published"`
}

// alert has the fields of an alerts.Alert and not its MarshalJSON, which knows nothing of
// the fields beside it.
type alert alerts.Alert

func newAlert(s futurejobs.Said) Alert {
	return Alert{SchemaVersion: alerts.SchemaVersion, alert: alert(s.Alert), Published: s.Published}
}

// Said is the alert alone.
func (a Alert) Said() alerts.Alert { return alerts.Alert(a.alert) }

func (a *api) alerts(ctx context.Context, f futurejobs.Filter) (Page[Alert], error) {
	p, err := a.Lists.Alerts(ctx, f)
	if err != nil {
		return Page[Alert]{}, err
	}
	return pageOf(p, newAlert), nil
}

func readAlertID(from *reading) alerts.ID {
	id, err := uuid.Parse(from.path("id"))
	if err != nil {
		from.refuse("path.id", "no alert has such an id: %v", err)
	}
	return id
}

func (a *api) alert(ctx context.Context, id alerts.ID) (Alert, error) {
	s, err := a.Lists.Alert(ctx, id)
	if err != nil {
		return Alert{}, err
	}
	return newAlert(s), nil
}

// toAPI leads the link of an alert to its document: there is no page of it yet.
func toAPI(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, apiPath+r.URL.EscapedPath(), http.StatusTemporaryRedirect)
}
