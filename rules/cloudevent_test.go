package rules

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
)

func TestEnvelopesAreOpened(t *testing.T) {
	const head = `"specversion":"1.0","id":"A-1","source":"/shop","type":"order.created"`
	encoded := base64.StdEncoding.EncodeToString([]byte("\xff\x00raw"))
	for _, c := range []struct{ name, kind, envelope, data string }{
		{"JSON data", "application/cloudevents+json", `{` + head + `,"data":{"id": 7.10, "x": [1,2]}}`, `{"id": 7.10, "x": [1,2]}`},
		{"before its attributes", "application/cloudevents+json", `{"data":{"id":"7"},` + head + `}`, `{"id":"7"}`},
		{"a charset", "Application/CloudEvents+JSON; charset=utf-8", `{` + head + `,"data":"text"}`, `"text"`},
		{"text", "application/cloudevents+json", `{` + head + `,"datacontenttype":"text/plain","data":"plain"}`, `plain`},
		{"bytes", "application/cloudevents+json", `{` + head + `,"datacontenttype":"application/octet-stream","data_base64":"` + encoded + `"}`, "\xff\x00raw"},
		{"no data", "application/cloudevents+json", `{` + head + `}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := futurejobs.Event{ID: "nats", Data: []byte(c.envelope), Header: map[string][]string{"content-type": {c.kind}, "traceparent": {"00"}}}
			got, err := openEvent(e)
			if err != nil || string(got.Data) != c.data || got.ID != "A-1" || got.Header["traceparent"][0] != "00" {
				t.Errorf("%q of %+v, %v", got.Data, got, err)
			}
			if again, err := openEvent(got); err != nil || string(again.Data) != c.data {
				t.Errorf("opened again it is %q, %v", again.Data, err)
			}
			if string(e.Data) != c.envelope || e.Header["content-type"][0] != c.kind {
				t.Errorf("openEvent changed its argument: %+v", e)
			}
		})
	}
}

func TestAttributesAreHeaders(t *testing.T) {
	got, err := openEvent(futurejobs.Event{
		Header: map[string][]string{"Content-Type": {structuredType}},
		Data: []byte(`{"specversion":"1.0","id":"A-1","source":"/shop","type":"order.created","subject":"orders/7",
			"time":"2026-01-31T15:04:05.5Z","dataschema":"https://example.org/order","datacontenttype":"application/json","tenant":"acme","data":{}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"content-type": {"application/json"}, "ce-specversion": {"1.0"}, "ce-id": {"A-1"}, "ce-source": {"/shop"},
		"ce-type": {"order.created"}, "ce-subject": {"orders/7"}, "ce-time": {"2026-01-31T15:04:05.5Z"},
		"ce-dataschema": {"https://example.org/order"}, "ce-tenant": {"acme"},
	}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestInvalidEnvelopes(t *testing.T) {
	for envelope, reason := range map[string]string{
		`{"id":`:  "not a valid CloudEvent",
		``:        "not a valid CloudEvent",
		`[]`:      "not a valid CloudEvent",
		`{"a":1}`: "not a valid CloudEvent",
		`{"specversion":"1.0","id":"1","type":"t","data":{}}`:                                                 "source: REQUIRED",
		`{"specversion":"9.0","id":"1","type":"t","source":"/s","data":{}}`:                                   "not a valid CloudEvent",
		`{"specversion":"1.0","id":"1","type":"t","source":"/s","data_base64":"%"}`:                           "not a valid CloudEvent",
		`{"specversion":"1.0","id":"1","type":"t","source":"/s","time":"now"}`:                                "not a valid CloudEvent",
		`{"specversion":"1.0","id":"1","type":"t","source":"/s","data":` + strings.Repeat("[", 100_000) + `}`: "not a valid CloudEvent",
		`{"specversion":"1.0","id":"1","type":"t","source":"/s","x":` + strings.Repeat(`{"x":`, 50_000) + `}`: "not a valid CloudEvent",
	} {
		_, err := openEvent(futurejobs.Event{Header: map[string][]string{"content-type": {structuredType}}, Data: []byte(envelope)})
		if err == nil || !strings.Contains(err.Error(), reason) || len(err.Error()) > 500 {
			t.Errorf("%.80s: %.600v, want %q", envelope, err, reason)
		}
	}
	if _, err := openEvent(futurejobs.Event{Header: map[string][]string{"content-type": {batchType}}, Data: []byte(`[]`)}); err == nil || !strings.Contains(err.Error(), "one by one") {
		t.Errorf("a batch: %v", err)
	}
	for _, kind := range []string{"", "application/json", "application/cloudevents", "application/cloudevents+avro", ";;"} {
		e := futurejobs.Event{Header: map[string][]string{"content-type": {kind}}, Data: []byte("as it is")}
		if got, err := openEvent(e); err != nil || string(got.Data) != "as it is" {
			t.Errorf("%q: %q, %v", kind, got.Data, err)
		}
	}
}
