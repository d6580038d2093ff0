package futurejobs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A publisher cannot name the rules of a dead letter: the header is the engine's alone, whatever refuses the event.
func TestPublisherSeesNoRulesOfDeadLetter(t *testing.T) {
	forged := func() Event {
		return Event{Stream: "ORDERS", Seq: 1, Header: map[string][]string{RulesHeader: {"zenith-late"}, "Trace": {"1"}}}
	}
	for name, c := range map[string]struct {
		refusal Refusal
		want    []string
	}{
		"of one rule":                    {Refusal{Rule: "acme-late", Reason: "bad"}, nil},
		"of no rule":                     {Refusal{Reason: "bad"}, nil},
		"of several rules":               {Refusal{Rule: "acme-" + Several, Rules: []string{"acme-1", "acme-2"}, Reason: "bad"}, []string{"acme-1", "acme-2"}},
		"of several rules without names": {Refusal{Rule: "acme-" + Several, Reason: "bad"}, nil},
	} {
		e := forged()
		l := NewDeadLetter(e, c.refusal, noon)
		if diff := cmp.Diff(c.want, l.Several()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.want, l.Event.Header[RulesHeader]); diff != "" || len(l.Event.Header["Trace"]) != 1 {
			t.Errorf("%s: the headers are %v", name, l.Event.Header)
		}
		if diff := cmp.Diff(forged(), e); diff != "" {
			t.Errorf("%s: the event was changed (-want +got):\n%s", name, diff)
		}
	}
}

// A job that is refused while the event is applied has a letter without a forged header, too.
func TestRefusedJobHasNoForgedHeader(t *testing.T) {
	e := start(orderRule(), "1", noon.Add(time.Hour)).at(noon)
	e.Event.Header = map[string][]string{RulesHeader: {"zenith-late"}}
	net := FoldWithin(Bounds{Quotas: tenantQuotas{{prefix: "order-"}}}, []Effect{e}, FoldInput{}, noon)
	if len(net.DeadLetters) != 1 || len(net.DeadLetters[0].Event.Header) != 0 || net.DeadLetters[0].Rule == "" {
		t.Errorf("%+v", net.DeadLetters)
	}
}
