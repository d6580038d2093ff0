package server_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"deadman/rules"
)

const devices = `name: device-silent
entity: device
trigger: {heartbeat: {event: devices.*.beat, key: wildcard(1), every: 10m, grace: 2m}}
`

// beatLine returns a heartbeat of a device.
func beatLine(at time.Time, device string) line {
	return line{at, kindEvent, fmt.Sprintf("devices.%s.beat {}", device)}
}

// Ten devices send heartbeats every minute through the nights of clock changes, and stop one after another. Each
// raises one alert, and none earlier.
func TestVirtualHeartbeatsThroughClockChanges(t *testing.T) {
	t.Parallel()
	for _, night := range []string{"Sun 29 Mar 00:00", "Sun 25 Oct 00:00"} {
		begin, given, want := instant(t, night), timeline{}, timeline{}
		for minute := range 6 * 60 {
			at, device := begin.Add(time.Duration(minute)*time.Minute), minute%10
			if last := 3*60 + 10*device; minute/10*10 < last {
				given = append(given, beatLine(at, fmt.Sprint("d", device)))
			} else if minute/10*10 == last {
				since := at.Add(-10 * time.Minute)
				want = append(want, line{since.Add(12 * time.Minute), "alert", fmt.Sprintf(
					"warning overdue: device d%d: no heartbeat since %s UTC, expected every 10m, grace 2m", device, since.Format(time.TimeOnly))})
			}
		}
		given = append(given, line{begin.Add(6 * time.Hour), kindUntil, ""})
		if got := playAlerts(t, devices, nil, given); got.String() != want.String() {
			t.Errorf("alerts:\n%swant:\n%s", got, want)
		}
	}
}

// A job scheduled for half past two has its full hour in the night that skips that time, and in the night that
// repeats it.
func TestVirtualNightlyJobsThroughClockChanges(t *testing.T) {
	t.Parallel()
	const nightly = `name: backup-missing
entity: backup
trigger: {heartbeat: {event: backups.*, key: wildcard(1), schedule: "30 2 * * *", zone: Europe/Berlin, grace: 1h}}
`
	for _, c := range []struct{ given, want string }{
		{
			`Sat 28 Mar 01:40  event    backups.crm {}
Mon 30 Mar 00:00  until    the next night
`,
			"Sun 29 Mar 02:00  alert    warning overdue: backup crm: no heartbeat since 2026-03-28 02:40:00 CET, expected after each tick of \"30 2 * * *\" Europe/Berlin, grace 1h\n",
		},
		{
			`Sat 24 Oct 00:40  event    backups.crm {}
Sun 25 Oct 01:20  event    backups.crm {}
Mon 26 Oct 03:00  until    the morning
`,
			"Mon 26 Oct 02:30  alert    warning overdue: backup crm: no heartbeat since 2026-10-25 02:20:00 CET, expected after each tick of \"30 2 * * *\" Europe/Berlin, grace 1h\n",
		},
	} {
		if got := playAlerts(t, nightly, nil, readTimeline(t, c.given)); got.String() != c.want {
			t.Errorf("alerts:\n%swant:\n%s", got, c.want)
		}
	}
}

// Late heartbeats count from their sending time, and older ones after newer ones are ignored.
func TestVirtualHeartbeatsLateAndOutOfOrder(t *testing.T) {
	t.Parallel()
	begin := instant(t, "Mon 02 Mar 10:00")
	at := func(minute int) time.Time { return begin.Add(time.Duration(minute) * time.Minute) }
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		v := &virtual{t: t, dir: t.TempDir()}
		v.open()
		v.run()
		defer v.close()
		v.save(devices)
		come := func(now int, minutes ...int) {
			time.Sleep(time.Until(at(now)))
			for _, minute := range minutes {
				v.apply(rules.PreviewEvent{Subject: "devices.a.beat", At: at(minute), Data: []byte("{}")})
			}
			v.settle()
		}
		come(0, 0)
		come(9, 8, 4, 2)
		come(19, 11)  // eight minutes in transit; the deadline was 20
		come(22, 3)   // deadline 15
		come(23)      // no alert
		come(24, 5)   // overdue since 23 already
		come(40, 39)  // back
		come(51, 38)  // deadline 51
		come(60, 55)  // resolved again
		come(67)      // no alert
		come(100, 12) // sent before that
		const want = `Mon 02 Mar 10:23  alert    warning overdue: device a: no heartbeat since 10:11:00 UTC, expected every 10m, grace 2m
Mon 02 Mar 10:40  alert    warning resolved: device a recovered after 28m
                  ends     a, resolved
Mon 02 Mar 10:51  alert    warning overdue: device a: no heartbeat since 10:39:00 UTC, expected every 10m, grace 2m
Mon 02 Mar 11:00  alert    warning resolved: device a recovered after 16m
                  ends     a, resolved
Mon 02 Mar 11:07  alert    warning overdue: device a: no heartbeat since 10:55:00 UTC, expected every 10m, grace 2m
`
		if got := v.alertLines(); got.String() != want {
			t.Errorf("alerts:\n%swant:\n%s", got, want)
		}
	})
}

// An expected device without any heartbeat is reported as never seen; a device that is no longer expected is dropped.
// A version with another interval applies to pending jobs too.
func TestVirtualExpectedDevices(t *testing.T) {
	t.Parallel()
	begin := instant(t, "Mon 02 Mar 10:00")
	expect := func(every, keys string) string {
		return strings.Replace(devices, "every: 10m", "every: "+every+", keys: ["+keys+"]", 1)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		v := &virtual{t: t, dir: t.TempDir()}
		v.open()
		v.run()
		defer v.close()
		save := func(text string) {
			v.save(text)
			registry := rules.Registry{Store: v.store, Catalog: v.catalog, Jobs: v.store, Log: slog.New(slog.DiscardHandler)}
			if _, err := registry.SyncExpectedKeys(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		save(expect("1h", "a, b, c"))
		v.play(timeline{beatLine(begin.Add(30*time.Minute), "b"), {begin.Add(40 * time.Minute), kindUntil, ""}})
		save(expect("1h", "a, b"))
		v.play(timeline{beatLine(begin.Add(70*time.Minute), "a"), {begin.Add(100 * time.Minute), kindUntil, ""}})
		const want = `Mon 02 Mar 10:40  ends     c, cancelled
Mon 02 Mar 11:02  alert    warning overdue: device a: no heartbeat yet, expected every 1h, grace 2m
Mon 02 Mar 11:10  alert    warning resolved: device a sent its first heartbeat
                  ends     a, resolved
Mon 02 Mar 11:32  alert    warning overdue: device b: no heartbeat since 10:30:00 UTC, expected every 1h, grace 2m
`
		if got := v.alertLines(); got.String() != want {
			t.Errorf("alerts:\n%swant:\n%s", got, want)
		}
	})
}

// During a pause the job's clock stands still: a heartbeat in it counts from its end, and ticks in it are skipped.
func TestVirtualHeartbeatsInPause(t *testing.T) {
	t.Parallel()
	const pausing = `pause: {event: devices.*.serviced, key: wildcard(1), if: event.on}
`
	for _, c := range []struct{ rule, given, want string }{
		{
			devices,
			`Mon 02 Mar 10:00  event    devices.a.beat {}
Mon 02 Mar 10:05  event    devices.a.serviced {"on": true}
Mon 02 Mar 10:30  event    devices.a.beat {}
Mon 02 Mar 10:45  event    devices.a.beat {}
Mon 02 Mar 11:00  event    devices.a.serviced {"on": false}
Mon 02 Mar 13:00  until    the check
`,
			"Mon 02 Mar 11:12  alert    warning overdue: device a: no heartbeat since 10:45:00 UTC, expected every 10m, grace 2m\n",
		},
		{
			strings.Replace(devices, "every: 10m, grace: 2m", `schedule: "0 * * * *", grace: 10m`, 1),
			`Mon 02 Mar 09:30  event    devices.a.beat {}
Mon 02 Mar 09:40  event    devices.a.serviced {"on": true}
Mon 02 Mar 11:30  event    devices.a.serviced {"on": false}
Mon 02 Mar 13:00  until    the check
`,
			"Mon 02 Mar 12:10  alert    warning overdue: device a: no heartbeat since 09:30:00 UTC, expected after each tick of \"0 * * * *\", grace 10m\n",
		},
	} {
		if got := playAlerts(t, c.rule+pausing, nil, readTimeline(t, c.given)); got.String() != c.want {
			t.Errorf("alerts:\n%swant:\n%s", got, c.want)
		}
	}
}
