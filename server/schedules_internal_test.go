package server

import (
	"errors"
	"testing"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/web"
)

// Changes of schedules are prepared with the current rules: one that was saved this moment is found, and one that was
// deleted meanwhile is refused without effect on the others.
func TestSchedulesOfChangingRules(t *testing.T) {
	n := openNode(t)
	save := func(name, schedule string) {
		t.Helper()
		text := "name: " + name + "\nentity: report\ntrigger: {schedule: \"" + schedule + "\", emit: {subject: reports.due}}\n"
		if _, err := n.rules.Save(t.Context(), []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion}); err != nil {
			t.Fatal(err)
		}
	}
	catalog := rules.StoredCatalog{Catalog: rules.NewCatalog(n.store, n.store.Shards())} // of another node
	schedules := &storedSchedules{n.store, catalog, n.clock.Now}
	change := func(rule, id, text string) web.ScheduleChange {
		return web.ScheduleChange{Schedule: futurejobs.Schedule{Rule: rule, ID: id, Text: text, Enabled: true}, Deleted: text == ""}
	}
	save("kept", "@stored")
	save("gone", "@stored")
	save("fixed", "@daily")
	all := []web.ScheduleChange{
		change("kept", "1", "@daily"), change("gone", "1", "@daily"), change("fixed", "1", "@daily"), change("absent", "1", "@daily"),
		change("kept", "2", "never"), change("kept", "3", ""),
	}
	check := func(step string, want futurejobs.ScheduleChanges, refused ...any) {
		t.Helper()
		done, err := schedules.ChangeSchedules(t.Context(), all)
		if err != nil || done.ScheduleChanges != want || len(done.Refused) != len(refused) {
			t.Fatalf("%s: %+v, %v; want %+v", step, done, err, want)
		}
		for i, of := range refused {
			var wrong document.Problems
			errors.As(done.Refused[i], &wrong)
			switch of := of.(type) {
			case error:
				if !errors.Is(done.Refused[i], of) {
					t.Errorf("%s: change %d: %v, want %v", step, i, done.Refused[i], of)
				}
			case string:
				if len(wrong) != 1 || wrong[0].Pointer != of {
					t.Errorf("%s: change %d: %v, want %s", step, i, done.Refused[i], of)
				}
			default:
				if done.Refused[i] != nil {
					t.Errorf("%s: change %d: %v", step, i, done.Refused[i])
				}
			}
		}
	}
	check("rules saved this moment", futurejobs.ScheduleChanges{Created: 2, Unknown: 1}, nil, nil, "/rule", futurejobs.ErrNotFound, "/schedule", nil)
	if err := n.rules.Delete(t.Context(), "gone", rules.AnyVersion, ""); err != nil {
		t.Fatal(err)
	}
	save("fixed", "@stored")
	all[0].Text = "@hourly"
	// The catalog has the deleted rule until the store refuses it.
	all = append(all[:3:3], all[4:]...)
	all[2] = change("kept", "4", "@daily")
	check("a rule deleted meanwhile", futurejobs.ScheduleChanges{Created: 1, Updated: 1, Unknown: 1}, nil, futurejobs.ErrNotFound, nil, "/schedule", nil)
	all = []web.ScheduleChange{change("fixed", "1", "@daily")}
	check("a rule with a new trigger", futurejobs.ScheduleChanges{Created: 1}, nil)
	save("fixed", "@daily")
	all = []web.ScheduleChange{change("fixed", "1", "@hourly"), change("fixed", "1", ""), change("absent", "1", "")}
	check("a rule with another trigger", futurejobs.ScheduleChanges{Deleted: 1}, "/rule", nil, futurejobs.ErrNotFound)
	all = []web.ScheduleChange{change("absent", "1", "@daily")}
	check("nothing to do", futurejobs.ScheduleChanges{}, futurejobs.ErrNotFound)
}
