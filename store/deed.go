package store

import futurejobs "deadman/future_jobs"

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

// object is what the audit calls the job of an effect.
func object(e futurejobs.Effect) string { return "job/" + e.Rule.Name + "/" + e.Ref.Key }
