package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// auditOf returns the lines that a batch adds to the audit log, as parameters of insertAudit.
func auditOf(ctx context.Context, b futurejobs.EffectBatch, net futurejobs.FoldResult, now time.Time) (lines [][]any, err error) {
	if b.AuditAction == "" {
		return nil, nil
	}
	if b.Bulk {
		return bulkAudit(ctx, b, net.Create, now)
	}
	for _, e := range auditedEffects(b, net) {
		line, err := auditArgs(ctx, now, access.Action(b.AuditAction), object(e), auditDetail(e))
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// auditedEffects returns the effects of a batch to be audited: the effects of a person that changed a job.
func auditedEffects(b futurejobs.EffectBatch, net futurejobs.FoldResult) []futurejobs.Effect {
	touched := make(map[futurejobs.Ref]bool)
	for _, j := range net.Create {
		touched[j.Ref] = true
	}
	for _, jobs := range [][]futurejobs.Job{net.Change, net.Update} {
		for _, j := range jobs {
			touched[j.Ref] = true
		}
	}
	for _, decisions := range [][]futurejobs.Decision{net.End, net.StartedAndEnded} {
		for _, d := range decisions {
			touched[d.Job.Ref] = true
		}
	}
	var done []futurejobs.Effect
	for _, e := range b.Effects {
		if touched[e.Ref] {
			done = append(done, e)
		}
	}
	return done
}

// object returns the object of an effect in the audit log: an alert for an acknowledgement, else a job.
func object(e futurejobs.Effect) string {
	if a, is := e.Action.(futurejobs.Acknowledge); is {
		return "alert/" + a.Ack.Alert.String()
	}
	return "job/" + e.Rule.Name + "/" + e.Ref.Key
}

// auditDetail returns the detail of an effect in the audit log.
func auditDetail(e futurejobs.Effect) string {
	switch action := e.Action.(type) {
	case futurejobs.End:
		return action.Note
	case futurejobs.Snooze:
		return "until " + action.Until.UTC().Format(time.RFC3339)
	}
	a, is := e.Action.(futurejobs.Acknowledge)
	if !is {
		return ""
	}
	job := e.Rule.Name + "/" + e.Ref.Key
	if a.Ack.Until.IsZero() { // the acknowledgement is removed
		return job
	}
	until := "until resolved"
	if !a.Ack.IsUntilResolved() {
		until = "until " + a.Ack.Until.UTC().Format(time.RFC3339)
	}
	return strings.Join(slices.DeleteFunc([]string{job, until, a.Ack.Note}, func(s string) bool { return s == "" }), "; ")
}

// bulkAudit returns the lines of jobs that were created in bulk, one for each rule, with a count such as "jobs: 12".
func bulkAudit(ctx context.Context, b futurejobs.EffectBatch, started []*futurejobs.Job, now time.Time) (lines [][]any, err error) {
	names, counts := make(map[int32]string), make(map[int32]int)
	for i := range b.Effects {
		names[b.Effects[i].Ref.RuleID] = b.Effects[i].Rule.Name
	}
	for _, j := range started {
		counts[j.RuleID]++
	}
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		line, err := auditArgs(ctx, now, access.Action(b.AuditAction), "job/"+names[id], fmt.Sprintf("jobs: %d", counts[id]))
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}
