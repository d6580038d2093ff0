package schedules_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine
)

// zones have unlike rules: how far ahead, by how much, when, and which way.
var zones = []string{
	"UTC",
	"Europe/Berlin",
	"Europe/London",
	"Europe/Dublin",   // winter time is what is saved
	"Europe/Lisbon",   // in Berlin's zone for four years
	"Europe/Istanbul", // stayed in summer time
	"Europe/Moscow",   // winter and summer time abolished in turn
	"Europe/Kyiv",     // changes at three and at four
	"Europe/Chisinau", // changes an hour before its neighbours
	"Atlantic/Azores", // midnight is left out, and shown twice
	"America/New_York",
	"America/Los_Angeles",
	"America/St_Johns",       // changed at one past midnight
	"America/Sao_Paulo",      // midnight was left out
	"America/Santiago",       // changes at midnight, southern
	"America/Asuncion",       // likewise, and gave it up
	"America/Havana",         // changes at midnight and at one
	"America/Caracas",        // half an hour back, and forward again
	"America/Scoresbysund",   // changed its zone and its rule at once
	"America/Nuuk",           // changes the evening before
	"America/Port-au-Prince", // on and off
	"America/Anchorage",
	"Africa/Casablanca", // an hour back in Ramadan
	"Africa/Cairo",      // forward at midnight, back at midnight
	"Africa/Juba",       // changed for good
	"Africa/Windhoek",   // winter time is what is saved
	"Asia/Tehran",       // forward at midnight
	"Asia/Amman",
	"Asia/Gaza",      // by decree, twice in Ramadan's years
	"Asia/Kathmandu", // three quarters of an hour
	"Asia/Kolkata",
	"Asia/Pyongyang",      // half an hour back, and forward again
	"Asia/Dhaka",          // one summer, from eleven in the evening
	"Australia/Lord_Howe", // half an hour
	"Australia/Adelaide",
	"Pacific/Chatham",    // changes at a quarter to three
	"Pacific/Apia",       // left out a day
	"Pacific/Kiritimati", // likewise, fourteen hours ahead
	"Pacific/Kwajalein",  // likewise, the whole world round
	"Pacific/Norfolk",
	"Antarctica/Troll", // two hours
	"Antarctica/Casey", // three hours, time and again
}

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// at is an instant that is written with its offset.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	instant, err := time.Parse("2006-01-02 15:04:05 -0700", text)
	if err != nil {
		instant, err = time.Parse("2006-01-02 15:04 -0700", text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return instant.UTC()
}
