package rules_test

import (
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// A save that changes the places of sets mixes none: the members of a pending job count for the sets that they came for.
func TestSetsKeepTheirMembers(t *testing.T) {
	const head = "name: parcel\nentity: parcel\ntrigger: {event: tickets.opened, key: event.id}\nescalate: [{after: 5h}]\nresolve:\n"
	const scans = "- {event: tickets.scanned, key: event.id, distinct: event.place, need: 3, as: scanned}\n"
	const signs = "- {event: tickets.signed, key: event.id, distinct: event.by, need: 2, as: signed}\n"
	s := openStore(t)
	_, b := newBroker(t)
	r := newRegistry(b, s)
	var stream string
	save := func(text string) {
		t.Helper()
		c, err := r.Save(t.Context(), []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion})
		if err != nil {
			t.Fatal(err)
		}
		stream = c.After.Reads[0].Stream
	}
	seq, since := uint64(0), time.Now().Truncate(time.Minute).Add(time.Hour)
	publish := func(kind, body string) {
		t.Helper()
		seq++
		refresh(t, r.Catalog)
		effects, refused := r.Catalog.Match(futurejobs.Event{Stream: stream, Subject: "tickets." + kind, Seq: seq, At: since.Add(time.Duration(seq) * time.Second), Data: []byte(body)})
		if _, err := s.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: r.Catalog.Revision(), Effects: effects}); err != nil || len(effects) != 1 {
			t.Fatal(effects, refused, err)
		}
	}
	outcomes := func() (all string) {
		t.Helper()
		page, err := s.History(t.Context(), futurejobs.Filter{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Items {
			all += j.Key + " " + string(j.Outcome) + ";"
		}
		return all
	}
	save(head + scans + signs)
	publish("opened", `{"id":"a"}`)
	publish("opened", `{"id":"b"}`)
	for _, id := range []string{"a", "b"} {
		publish("scanned", `{"id":"`+id+`","place":"x"}`)
		publish("scanned", `{"id":"`+id+`","place":"y"}`)
	}
	save(head + signs + scans)
	publish("signed", `{"id":"a","by":"one"}`)
	if got := outcomes(); got != "" {
		t.Errorf("after one of two signatures the jobs ended: %s", got)
	}
	publish("scanned", `{"id":"b","place":"z"}`)
	publish("signed", `{"id":"a","by":"two"}`)
	if got := outcomes(); got != "a signed;b scanned;" && got != "b scanned;a signed;" {
		t.Errorf("the jobs ended as %q", got)
	}
}
