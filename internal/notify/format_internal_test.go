package notify

import (
	"bytes"
	"html"
	"math/rand/v2"
	"mime"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// serviceClient are service URLs, one for each format.
var serviceClient = []string{
	"slack://hook:A-B-C@webhook", "discord://token@1", "teams://hook.example.org", "telegram://1:a@telegram?chats=1",
	"telegram://1:a@telegram?chats=1&ParseMode=HTML", "telegram://1:a@telegram?chats=1&parsemode=Markdown", "telegram://1:a@telegram?chats=1&parsemode=MarkdownV2",
	"ntfy://ntfy.example.org/a?markdown=yes", "ntfy://ntfy.example.org/a", "generic+https://hook.example.org", "smtp://h/?usehtml=yes", "smtp://h/", "pagerduty:///a",
}

// hostileTexts are parts of texts that mention, link, hide or reorder.
var hostileTexts = []string{
	"=?utf-8?B?4oCuSGVsbG8=?=", "=?", "=", "?", "<!channel>", "<!here|x>", "<@U123>", "<@&123>", "@everyone", "@here", "x@everyone", "@channel", "@all", "@**all**", "@bob", "x.@bob.example", "-@bob.example.org", "+@x.y", "_@x.y", "<users/all>", `<at user_id="all">`,
	"<https://evil.example/login|View in deadman>", "[View](https://evil.example)", "![a](https://evil.example)", "[a][b]", "<a href=\"https://evil.example\">", "<https://evil.example>",
	"https://good.example@evil.example/", "`code`", "*a*", "_b_", "~~c~~", "||d||", "\\", "](", "&#91;", "&lt;", "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u2028", "\u0085",
	"\u00ad", "\U000e0041", "\x1b[2J", "\x00", "\n", " ", "<", ">", "|", "(", ")", "]", "[", "@", "a", "é", "9", "ש",
}

// harmlessTexts are texts that stay readable in all formats.
var harmlessTexts = []string{
	"a & b < c", "3 <= 4 > 2", "write to ops@example.org, or o.n-call+x@mail.example.co.uk", "مرحبا", "שלום 17", "naïve – ok?", "order 1234 waits (2nd)", "AT&T; 5 * 3",
	"https://wiki.example.org/run_book?a=1&b=2#c see there", "(https://wiki.example.org/a_b_c)", "a_b_c [x] `y` C:\\dir #4 ~5 {6}", "👍", "\u0600123",
}

func FuzzFormats(f *testing.F) {
	for _, seed := range append(hostileTexts, harmlessTexts...) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { checkAllFormats(t, text) })
}

// Texts of events have no effect in a chat.
func TestFormatsLeaveNoMarks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var output strings.Builder
		for range 1 + random.IntN(6) {
			output.WriteString(hostileTexts[random.IntN(len(hostileTexts))])
		}
		checkAllFormats(t, output.String())
	}
}

func TestFormatsKeepHarmlessText(t *testing.T) {
	for _, text := range harmlessTexts {
		for _, service := range serviceClient {
			if got := read(service, formatFor(t, service)("late: "+text)); got != "late: "+text {
				t.Errorf("%s: %q is read as %q", service, text, got)
			}
		}
	}
}

func formatFor(t *testing.T, service string) format {
	t.Helper()
	u, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	return formatOf(u)
}

func checkAllFormats(t *testing.T, text string) {
	t.Helper()
	row := strings.TrimSpace("late: " + line(text, 300))
	for _, service := range serviceClient {
		got := formatFor(t, service)(row)
		checkFormat(t, service, row, got)
		if again := formatFor(t, service)(strings.TrimSpace("late: " + line(line(text, 300), 300))); again != got {
			t.Errorf("%s: %q becomes %q and %q", service, row, got, again)
		}
	}
}

var (
	mention = regexp.MustCompile(`(?i)(^|[^a-z0-9])@|@(everyone|here|(channel|all)\b)`)
	// mark matches the beginning of mentions and links in chats, but not a "less than".
	mark = regexp.MustCompile(`<[^\s0-9=<\\]|<<|\]\(`)
)

// checkFormat checks a text as interpreted by a service.
func checkFormat(t *testing.T, service, row, got string) {
	t.Helper()
	if i := strings.IndexFunc(got, func(r rune) bool { return isHidden(r) || r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 }); i >= 0 {
		t.Errorf("%s: %q has something hidden in %q", service, row, got[i:])
	}
	if !utf8.ValidString(got) {
		t.Errorf("%s: %q becomes %q", service, row, got)
	}
	if strings.HasPrefix(service, "smtp") {
		if text, err := new(mime.WordDecoder).DecodeHeader(got); err != nil || text != got {
			t.Errorf("%s: a mail program reads %q as %q", service, got, text)
		}
	}
	if service == "smtp://h/" || strings.HasPrefix(service, "pagerduty") {
		return // a plain text
	}
	if mention.MatchString(got) || mark.MatchString(got) {
		t.Errorf("%s: %q becomes %q, which has marks", service, row, got)
	}
	if isEntities(service) {
		if strings.ContainsAny(got, "<>") {
			t.Errorf("%s: %q becomes %q", service, row, got)
		}
		if back := html.UnescapeString(got); back != inert(row) {
			t.Errorf("%s: %q is read as %q", service, row, back)
		}
	}
	if isMarkdown(service) {
		checkMarkdown(t, row, got)
	}
}

func isEntities(service string) bool {
	return strings.HasPrefix(service, "slack") || strings.HasSuffix(service, "ParseMode=HTML")
}

func isMarkdown(service string) bool {
	return strings.HasPrefix(service, "discord") || strings.HasPrefix(service, "teams") || strings.HasSuffix(service, "markdown=yes")
}

// reader is an independent Markdown parser.
var reader = goldmark.New(goldmark.WithExtensions(extension.GFM))

// checkMarkdown rejects all Markdown elements in a text except links that show their address.
func checkMarkdown(t *testing.T, row, got string) {
	t.Helper()
	source := []byte(got)
	err := ast.Walk(reader.Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch v := n.(type) {
		case *ast.Document, *ast.Paragraph, *ast.TextBlock, *ast.Text:
		case *ast.AutoLink:
			if leads := string(v.URL(source)); entering && strings.TrimPrefix(strings.TrimPrefix(leads, "mailto:"), "http://") != strings.TrimPrefix(string(v.Label(source)), "http://") {
				t.Errorf("%q becomes %q, where %q leads to %s", row, got, v.Label(source), leads)
			}
		default:
			t.Errorf("%q becomes %q, which has a %s", row, got, n.Kind())
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if back, want := read("discord://", got), unmarked(row); back != want && !entityInAddress.MatchString(row) {
		t.Errorf("%q is read as %q", want, back)
	}
}

// entityInAddress matches an entity in an address, which must stay unchanged. It is decoded but has no effect there.
var entityInAddress = regexp.MustCompile(`https?://\S*&[#a-zA-Z0-9]+;`)

var element = regexp.MustCompile(`<[^>]*>`)

// read returns a text as displayed by a service.
func read(service, sent string) string {
	switch {
	case isEntities(service):
		return html.UnescapeString(sent)
	case isMarkdown(service):
		var out bytes.Buffer
		if err := reader.Convert([]byte(sent), &out); err != nil {
			return err.Error()
		}
		return html.UnescapeString(strings.TrimSuffix(element.ReplaceAllString(out.String(), ""), "\n"))
	case strings.Contains(strings.ToLower(service), "parsemode=markdown"):
		return regexp.MustCompile(`\\([[:punct:]])`).ReplaceAllString(sent, "$1")
	}
	return sent
}

// A test message has times in the zone of the channels file.
func TestTrialHasZone(t *testing.T) {
	zone := time.FixedZone("JST", 9*60*60)
	n := &Notifier{sender: sender{now: time.Now}}
	n.file.Store(&channelSet{zone: zone})
	if got := n.trial("hook").Zone; got != zone {
		t.Errorf("the zone is %v", got)
	}
}
