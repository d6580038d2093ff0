package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestMessages(t *testing.T) {
	const text = "retry: 2000\n\n" +
		": still here\n\n" +
		"id: 1\nevent: alert\ndata: {\"a\":1}\n\n" +
		"event: problem\r\ndata:no space\r\ndata: second line\r\n\r\n" +
		"event: nothing\n\n" +
		"data: without a kind\n\n" +
		"event: alert\ndata: cut off"
	want := []message{
		{"alert", []byte(`{"a":1}`)},
		{"problem", []byte("no space\nsecond line")},
		{"", []byte("without a kind")},
	}
	// One byte at a time, so that read boundaries do not help.
	var got []message
	for m, err := range messages(iotest.OneByteReader(strings.NewReader(text))) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
	}
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d: %q", len(got), len(want), got)
	}
	for i := range want {
		if got[i].kind != want[i].kind || string(got[i].data) != string(want[i].data) {
			t.Errorf("message %d is %q, want %q", i, got[i], want[i])
		}
	}
}

func TestTruncatedMessages(t *testing.T) {
	cut := errors.New("cut")
	var last error
	for _, err := range messages(io.MultiReader(strings.NewReader("data: x\n"), iotest.ErrReader(cut))) {
		last = err
	}
	if !errors.Is(last, cut) {
		t.Errorf("it ends with %v", last)
	}

	last = nil
	for _, err := range messages(strings.NewReader("data: " + strings.Repeat("x", maxSSELine+1))) {
		last = err
	}
	if last == nil {
		t.Error("a line without end is read without end")
	}
}
