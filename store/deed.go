package store

import (
	"slices"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
)

// deeds are the effects of a batch to be audited: what a person did, where something came of
// it.
func deeds(b futurejobs.Batch, net futurejobs.Net) []futurejobs.Effect {
	if b.Deed == "" {
		return nil
	}
	touched := make(map[futurejobs.Ref]bool)
	for _, jobs := range [][]futurejobs.Job{net.Create, net.Change, net.Update} {
		for _, j := range jobs {
			touched[j.Ref] = true
		}
	}
	for _, decisions := range [][]futurejobs.Decision{net.End, net.Born} {
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

// object is what the audit calls what an effect is about: a job or, where somebody acknowledged
// it, an alert.
func object(e futurejobs.Effect) string {
	if a, is := e.Ask.(futurejobs.Acknowledge); is {
		return "alert/" + a.Ack.Alert.String()
	}
	return "job/" + e.Rule.Name + "/" + e.Ref.Key
}

// particulars are what the audit says beside the object of an effect.
func particulars(e futurejobs.Effect) string {
	a, is := e.Ask.(futurejobs.Acknowledge)
	if !is || a.Ack.Until.IsZero() {
		return ""
	}
	until := "for good"
	if !a.Ack.Good() {
		until = "until " + a.Ack.Until.UTC().Format(time.RFC3339)
	}
	return strings.Join(slices.DeleteFunc([]string{e.Rule.Name + "/" + e.Ref.Key, until, a.Ack.Note}, func(s string) bool { return s == "" }), "; ")
}
