package server

import (
	"context"
	"errors"
	"fmt"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// pauseCostly pauses rules with expressions that cost too much on several events ingested by this node, so that they
// delay no other rule on any node. It skips a rule that was changed or deleted meanwhile.
func (a *alarms) pauseCostly(ctx context.Context) error {
	ctx = access.As(ctx, access.Actor{Name: access.NodeItself})
	for _, c := range a.overdue.book.Costly() {
		err := a.store.Halt(ctx, c.Rule, c.Version, "its expressions took too long on several events")
		switch {
		case errors.Is(err, rules.ErrConflict), errors.Is(err, futurejobs.ErrNotFound):
		case err != nil:
			return err
		default:
			a.log.Warn("rule paused: its expressions take too long", "rule", c.Rule, "version", c.Version)
		}
	}
	return nil
}

// costly returns alarms for rules that are paused because their expressions cost too much. An alert stays open until
// its rule is resumed.
func (s situation) costly() (all []alarm) {
	for _, c := range s.halted {
		all = append(all, alarm{raise: true, SystemAlert: alerts.SystemAlert{
			Topic: "rule/" + c.Rule, Step: costlyStep, Status: alerts.Firing, Severity: c.Severity, Since: s.now,
			Text: fmt.Sprintf("rule %s is paused: its expressions took too long on several events. Its events are kept as dead letters. "+
				"Make its expressions simpler, resume the rule, then retry its dead letters", c.Rule),
			Labels: map[string]string{"rule": c.Rule},
		}})
	}
	return all
}
