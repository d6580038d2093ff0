package main

import (
	"encoding/json"
	"testing"
)

func TestHandlerSchema(t *testing.T) {
	got := runHere(t, "", nil, "handler", "schema")
	var schema struct {
		ID   string                     `json:"$id"`
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(got.out), &schema); err != nil || got.code != exitOK {
		t.Fatalf("%v: %+v", err, got)
	}
	if schema.ID != "urn:deadman:schema:handler" || schema.Defs["request"] == nil || schema.Defs["answer"] == nil {
		t.Errorf("the schema is %s", got.out)
	}
}
