package main

import (
	"net/http"
	"strings"
	"testing"

	"deadman/internal/testwait"
	"deadman/web"
)

const pingedRule = `
name: backup
entity: host
trigger: {heartbeat: {every: 24h, grace: 1h, keys: [nightly]}}
`

// TestRulePings checks that ping URLs are printed in full, for copying, and that the ping log is shown.
func TestRulePings(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "backup.yaml", pingedRule))
	n.expect(0, []string{"rule", "pings", "backup"}, "no ping URLs", "--key KEY", "--ping-key")
	made := n.expect(0, []string{"rule", "pings", "backup", "--key", "nightly"})
	address := strings.TrimSpace(made.out)
	if !strings.HasPrefix(address, n.at.HTTP+"/ping/") {
		t.Errorf("the address is %q", address)
	}
	if again := n.expect(0, []string{"rule", "pings", "backup", "--key", "nightly"}); again.out != made.out {
		t.Errorf("the second time it is %q", again.out)
	}
	for path, status := range map[string]int{address: 200, address + "/7": 200, address + "/nonsense": 404} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("42 files"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("User-Agent", "curl/8.5.0 "+strings.Repeat("x", 189))
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != status {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
	}
	testwait.Until(t, "the pings are in the log", func() bool {
		return len(readJSON[web.Page[web.PingEntry]](n, "rule", "pings", "backup", "--log", "--key", "nightly").Items) == 2
	})
	if got := n.expect(0, []string{"rule", "pings", "backup", "--log"}, "success", "fail (exit 7)", "42 files", "nightly", "curl/8.5.0"); strings.Contains(got.out, strings.Repeat("x", 40)) {
		t.Errorf("a client with a long user agent: %s", got.out)
	}

	const given = "5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"
	n.expect(1, []string{"rule", "pings", "backup", "--key", "nightly", "--uuid", given}, "rotate")
	n.expect(0, []string{"rule", "pings", "backup", "--key", "nightly", "--uuid", given, "--rotate"}, "/ping/"+given)
	if got := n.expect(0, []string{"rule", "pings", "backup", "--ping-key"}, n.at.HTTP+"/ping/", "/<key>"); got.err != "" {
		t.Errorf("with a hint: %s", got.err)
	}
	if a := readJSON[web.PingAddress](n, "rule", "pings", "backup", "--key", "nightly"); a.URL != n.at.HTTP+"/ping/"+given {
		t.Errorf("as JSON: %+v", a)
	}
	n.expect(0, []string{"rule", "pings", "backup"}, "any", "/<key>", "nightly", n.at.HTTP+"/ping/"+given, "loopback")
	if page := readJSON[web.Page[web.PingAddress]](n, "rule", "pings", "backup"); len(page.Items) != 2 || page.Items[1].URL != n.at.HTTP+"/ping/"+given {
		t.Errorf("%+v", page)
	}
	n.expect(0, []string{"rule", "pings", "backup", "--key", "nightly", "--remove"}, "removed")
	n.expect(1, []string{"rule", "pings", "backup", "--key", "nightly", "--remove"}, "not found")

	if got := n.expect(0, []string{"rule", "pings", "backup", "--key", "nigthly"}, n.at.HTTP+"/ping/"); !strings.Contains(got.err, "not among the keys of rule backup: nigthly") {
		t.Errorf("misspelt: %+v", got)
	}
	if got := n.expect(0, []string{"rule", "pings", "backup"}); !strings.Contains(got.err, "not among the keys of rule backup: nigthly") {
		t.Errorf("misspelt, in the list: %+v", got)
	}
	for _, args := range [][]string{
		{"--key", "\xff"},
		{"--key", "a", "--ping-key"},
		{"--uuid", given},
		{"--rotate"},
		{"--remove"},
		{"--key", "a", "--remove", "--rotate"},
		{"--log", "--ping-key"},
	} {
		n.expect(2, append([]string{"rule", "pings", "backup"}, args...), "--")
	}
}

// TestFailedPingHasItsReason checks that alert get and explain show the last line of a failed ping, cut, without control
// characters, with the description of the rule, and that alert get tells how to acknowledge an alert that is open.
func TestFailedPingHasItsReason(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "backup.yaml", strings.Replace(pingedRule, "entity: host", "description: No dump arrived.\nslot: 1s\nescalate: [{after: 0s, step: missing, text: no dump}]\nentity: host", 1)))
	address := strings.TrimSpace(n.mustRun("rule", "pings", "backup", "--key", "nightly"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/1", strings.NewReader("start\npg_dump: \x1b[31mrefused "+strings.Repeat("x", 400)+"\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	var open []web.Alert
	testwait.Until(t, "the alert is raised", func() bool {
		open = readJSON[web.Page[web.Alert]](n, "alert", "list", "--open").Items
		return len(open) == 1
	})
	id := shortID(open[0].ID)
	got := n.expect(0, []string{"alert", "get", id}, "ping output", "refused xxx", "x…\n", "No dump arrived.", "deadman alert ack "+id+" --for 1h")
	if strings.Contains(got.out, "\x1b") || strings.Contains(strings.SplitN(got.out, "ping output", 2)[1], strings.Repeat("x", 200)+"…") {
		t.Errorf("the line is not escaped or not cut: %q", got.out)
	}
	n.expect(0, []string{"explain", "host", "nightly"}, "ping output", "refused xxx", "description    No dump arrived.")
	n.mustRun("alert", "ack", id, "--for", "1h")
	if got := n.mustRun("alert", "get", id); strings.Contains(got, "deadman alert ack") {
		t.Errorf("an acknowledged alert: %s", got)
	}
}
