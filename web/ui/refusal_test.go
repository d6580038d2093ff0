package ui_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// page asks for a page as a browser without scripts does, and returns its content.
func page(t *testing.T, method, address, form string) (status int, content string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, content, _ = strings.Cut(string(text), "<main")
	content, _, _ = strings.Cut(content, "</main>")
	return answer.StatusCode, content
}

// An address that is mistyped gets a page that says what is wrong, once, in words that are not the
// API's, and where to go from there.
func TestMistypedAddresses(t *testing.T) {
	home := serve(t, orders)
	for _, c := range []struct {
		path   string
		status int
		says   string
		leads  string
	}{
		{"/alerts/nope", 400, "There is no alert nope<", "/alerts"},
		{"/alerts/01234567-89ab-7def-8123-456789abcdef", 404, "There is no alert 01234567-89ab-7def-8123-456789abcdef<", "/alerts"},
		{"/alerts?cursor=x", 400, "There is no such page of this list<", "/alerts"},
		{"/alerts/said?decided_after=x", 400, "Decided after: &#34;x&#34; is no instant", "/alerts/said"},
		{"/entities/order", 400, "Which order?<", "/jobs"},
		{"/entities/order?key=%00", 400, "Key: not valid UTF-8", "/jobs"},
		{"/entities/%00?key=a", 400, "There is no entity ⟨U&#43;0000⟩<", "/jobs"},
		{"/rules/nope", 404, "There is no rule nope<", "/rules"},
		{"/rules/nope/versions", 404, "There is no rule nope<", "/rules"},
		{"/rules?state=x", 400, "State: &#34;x&#34; is none of enabled", "/rules"},
		{"/jobs?cursor=x", 400, "There is no such page of this list<", "/jobs"},
		{"/mutes?cursor=x", 400, "There is no such page of this list<", "/mutes"},
		{"/mutes/nope", 404, "There is nothing at /mutes/nope<", "/mutes"},
		{"/history?cursor=x", 400, "There is no such page of this list<", "/history"},
		{"/dead-letters/nope", 400, "There is no dead letter nope<", "/dead-letters"},
	} {
		status, content := page(t, "GET", home+c.path, "")
		if status != c.status || strings.Count(content, c.says) != 1 || !strings.Contains(content, `<a class="button" href="`+c.leads+`">`) {
			t.Errorf("%s: %d %s", c.path, status, content)
		}
		for _, word := range []string{"path.", "query.", "Bad Request", "Not Found"} {
			if strings.Contains(content, word) {
				t.Errorf("%s: the page has the API's word %s: %s", c.path, word, content)
			}
		}
	}
}
