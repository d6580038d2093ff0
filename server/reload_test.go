package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"deadman/internal/bus/bustest"
	"deadman/server"
)

// Configuration files are reloaded on request, and an invalid one changes nothing.
func TestFilesAreReloaded(t *testing.T) {
	t.Parallel()
	before, after := newReceiver(t), newReceiver(t)
	channels := func(to *receiver) string {
		return "channels: {hook: {kind: webhook, url: " + to.URL + "}}\nroutes: [{to: hook, group_wait: 0s}]\n"
	}
	dir, again := t.TempDir(), make(chan struct{})
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	people, hooks := filepath.Join(dir, "notify.yaml"), filepath.Join(dir, "hooks.yaml")
	put(people, "channels: {}\n") // no channels yet
	put(filepath.Join(dir, "secret"), "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n")
	put(hooks, "hooks: [{name: one, subject: hooks.one, scheme: github, secret_file: secret}]\n")
	n := startReadyNode(t, server.Config{
		Notify: people, Hooks: hooks, Reload: again,
		Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule}),
	})
	reload := func(what, text string) {
		t.Helper()
		had := strings.Count(n.log.String(), text)
		again <- struct{}{}
		n.eventually(what, func() bool { return strings.Count(n.log.String(), text) > had })
	}
	pay := func(id string) { n.call(http.MethodPost, "/api/v1/events/payments.started", `{"id":"`+id+`"}`, nil) }
	hook := func(name string) int { return n.call(http.MethodPost, "/hooks/"+name, `{}`, nil) }

	put(people, channels(before))
	reload("the channels are read again", `read again","component":"files","file":"`+people)
	pay("p1")
	n.eventually("a notification arrives", func() bool { return before.statusList() == "firing" })

	put(people, "chanels: {}\n")
	put(hooks, "hooks: [{name: two, subject: hooks.two, scheme: github, secret_file: secret}]\n")
	reload("a bad file is refused", `a file is refused; what was read before stays in force","component":"files","file":"`+people)
	n.eventually("the good one is in force", func() bool { return hook("two") != http.StatusNotFound })
	if status := hook("one"); status != http.StatusNotFound {
		t.Errorf("a hook that is in the file no more answers %d", status)
	}
	pay("p2")
	n.eventually("a notification arrives as before", func() bool { return before.statusList() == "firing firing" })

	put(people, channels(after))
	reload("the channels are read again", `read again","component":"files","file":"`+people)
	pay("p3")
	n.eventually("a notification arrives on the other channel", func() bool { return after.statusList() == "firing" })
	if got := before.statusList(); got != "firing firing" {
		t.Errorf("the earlier channel received %s", got)
	}
}

// A channel whose buttons no webhook receives stops the start of a node, before it applies rules.
func TestButtonsWithoutWebhookStopTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"chat.url": "https://chat.example/hooks/1", "hooks.yaml": "hooks: [{name: chat, scheme: mattermost}]\n",
		"notify.yaml": "channels: {team: {kind: mattermost, url_file: chat.url, ack_button: chats}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := server.Config{
		DataDir: bustest.Dir(t), Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule}),
		Notify: filepath.Join(dir, "notify.yaml"), Hooks: filepath.Join(dir, "hooks.yaml"),
	}
	refused, _ := startNode(t, c)
	const want = "channel team: ack_button names the webhook chats, and the file of --hooks has none of that name"
	if err := <-refused.ended; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the start ends with %v, want %q", err, want)
	}
	c.Rules, c.Notify, c.Hooks = "", "", ""
	if status := startReadyNode(t, c).call(http.MethodGet, "/api/v1/rules/payment-unconfirmed", "", nil); status != http.StatusNotFound {
		t.Errorf("the refused start saved the rule: %d", status)
	}
}
