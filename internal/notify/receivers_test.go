package notify_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"html"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/textproto"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"deadman/internal/notify"
)

// receivers simulate the services of channels: requests for any host get that service's response.
type receivers struct {
	server *httptest.Server
	mu     sync.Mutex
	got    []request
}

// request is a request received by a service.
type request struct {
	host   string
	header http.Header
	body   []byte
}

// newReceivers returns receivers and a client with all requests directed to them.
func newReceivers(tb testing.TB) (*receivers, *http.Client) {
	r := &receivers{}
	r.server = httptest.NewTLSServer(r)
	tb.Cleanup(r.server.Close)
	client := notify.NewClient()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, r.server.Listener.Addr().String())
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it is this process
	}
	tb.Cleanup(transport.CloseIdleConnections)
	client.Transport = transport
	return r, client
}

func (r *receivers) ServeHTTP(w http.ResponseWriter, got *http.Request) {
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return
	}
	if got.Method != http.MethodGet && got.URL.Path != "/api/v1/register" { // Matrix and Zulip make other requests first
		r.mu.Lock()
		r.got = append(r.got, request{got.Host, got.Header, body})
		r.mu.Unlock()
	}
	answer := map[string]string{
		"api.telegram.org": `{"ok": true, "result": {"message_id": 1}}`, "hooks.slack.com": "ok", "slack.com": `{"ok": true}`,
		"matrix.example.org": `{"joined_rooms": ["!a:example.org"]}`,
	}[got.Host]
	switch {
	case got.Host == "discord.com":
		w.WriteHeader(http.StatusNoContent)
		return
	case answer == "":
		answer = "{}"
	}
	_, _ = io.WriteString(w, answer)
}

// received returns the requests since the last call.
func (r *receivers) received() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// The interpreters of texts. Each returns the effects of an event's text in its service: mentions, links behind other
// words, page elements.
var (
	// openingTag matches the beginning of an HTML tag, comment or instruction, by the standard.
	openingTag = regexp.MustCompile(`<[a-zA-Z/!?]`)
	// atName matches a mention in services with @name, but not the @ of an e-mail address.
	atName = regexp.MustCompile(`(?i)(^|[^a-z0-9_%+.-])@[a-z*]|@(everyone|here)`)
	// slackMark matches a mention, link or command of Slack and Google Chat.
	slackMark = regexp.MustCompile(`<[^>\n]*>`)
	// discordMark matches a mention, emoji, time or command of Discord.
	discordMark = regexp.MustCompile(`<(@|#|:|a:|t:|/|id:)`)
	// legacyMark and newMark match unescaped marks of Telegram's two Markdown modes. In the older one no backslash
	// escapes a backslash.
	legacyMark = regexp.MustCompile("(^|[^\\\\])[_*`\\[]")
	newMark    = regexp.MustCompile("(^|[^\\\\])(\\\\\\\\)*[_*\\[\\]()~`>#+=|{}.!-]")
)

func effectsInSlack(sent string) (does []string) {
	does = append(does, slackMark.FindAllString(sent, -1)...)
	return append(does, atName.FindAllString(sent, -1)...)
}

func effectsInHTML(sent string) (does []string) {
	sent = strings.TrimPrefix(sent, "<b></b>") // Telegram's title is empty here
	does = append(does, openingTag.FindAllString(sent, -1)...)
	return append(does, atName.FindAllString(sent, -1)...)
}

func effectsInDiscord(sent string) (does []string) {
	does = append(does, discordMark.FindAllString(sent, -1)...)
	return append(does, effectsInMarkdown(sent)...)
}

func effectsInLegacyTelegram(sent string) (does []string) {
	does = append(does, legacyMark.FindAllString(sent, -1)...)
	return append(does, atName.FindAllString(sent, -1)...)
}

func effectsInTelegram(sent string) (does []string) {
	does = append(does, newMark.FindAllString(sent, -1)...)
	return append(does, atName.FindAllString(sent, -1)...)
}

// effectsInUnknown is for services with an unknown format: no mark of any other service may occur.
func effectsInUnknown(sent string) (does []string) {
	if strings.Contains(sent, "](") {
		does = append(does, "](")
	}
	does = append(does, discordMark.FindAllString(sent, -1)...)
	return append(does, effectsInHTML(sent)...)
}

func effectsInPlainText(string) []string { return nil }

// commonmark is an independent Markdown parser.
var commonmark = goldmark.New(goldmark.WithExtensions(extension.GFM))

// effectsInMarkdown accepts only words, and links that show their address.
func effectsInMarkdown(sent string) (does []string) {
	does = atName.FindAllString(sent, -1)
	source := []byte(sent)
	_ = ast.Walk(commonmark.Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch v := n.(type) {
		case *ast.Document, *ast.Paragraph, *ast.TextBlock, *ast.Text:
		case *ast.AutoLink:
			label := string(v.Label(source))
			if leads := string(v.URL(source)); entering && leads != label && leads != "mailto:"+label && leads != "http://"+label {
				does = append(does, label+" leads to "+leads)
			}
		default:
			if entering {
				does = append(does, n.Kind().String())
			}
		}
		return ast.WalkContinue, nil
	})
	return does
}

// readMarkdown returns a Markdown text as displayed.
func readMarkdown(sent string) string {
	var out strings.Builder
	if err := commonmark.Convert([]byte(sent), &out); err != nil {
		return err.Error()
	}
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(out.String(), ""))
}

// texts collects all texts of a JSON value, by position.
func texts(v any, at string, all map[string]string) {
	switch v := v.(type) {
	case string:
		all[at] = v
	case []any:
		for _, one := range v {
			texts(one, at+"[]", all)
		}
	case map[string]any:
		for name, one := range v {
			texts(one, at+"."+name, all)
		}
	}
}

// shownIn returns the displayed texts of a request, by position. The texts of a list have one position, and are
// joined by newlines.
func shownIn(t *testing.T, r request) map[string]string {
	t.Helper()
	kind, _, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	all := make(map[string]string)
	switch {
	case err == nil && kind == "application/json":
		var v any
		if err := json.Unmarshal(r.body, &v); err != nil {
			t.Fatalf("%s: %.300q: %v", r.host, r.body, err)
		}
		texts(v, "", all)
	case err == nil && kind == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(r.body))
		if err != nil {
			t.Fatalf("%s: %.300q: %v", r.host, r.body, err)
		}
		for name, values := range form {
			all["."+name] = strings.Join(values, "\n")
		}
	default:
		all[""] = string(r.body)
	}
	return all
}

// received returns the mails since the last call, without the protocol's dot stuffing.
func (p *smtpServer) received() (mails []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, mail := range p.mails {
		mails = append(mails, strings.ReplaceAll("\n"+mail, "\n.", "\n")[1:])
	}
	p.mails = nil
	return mails
}

// parsedMail is a mail as parsed by a mail program.
type parsedMail struct {
	header mail.Header
	parts  map[string]string // by media type
}

// parseMail parses a mail, and fails the test if it violates the standards.
func parseMail(t *testing.T, sent string) parsedMail {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(sent))
	if err != nil {
		t.Fatalf("%q: %v", sent, err)
	}
	l := parsedMail{m.Header, make(map[string]string)}
	kind, options, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatalf("%q: %v", sent, err)
	}
	if !strings.HasPrefix(kind, "multipart/") {
		body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
		if err != nil {
			t.Fatal(err)
		}
		l.parts[kind] = string(body)
		return l
	}
	for parts := multipart.NewReader(m.Body, options["boundary"]); ; {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return l
		}
		if err != nil {
			t.Fatalf("%q: %v", sent, err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatalf("%q: %v", sent, err)
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if _, twice := l.parts[kind]; err != nil || twice || !reflect.DeepEqual(textproto.MIMEHeader{"Content-Type": part.Header["Content-Type"]}, part.Header) {
			t.Errorf("%q has the part %v", sent, part.Header)
		}
		l.parts[kind] = string(body)
	}
}

// headers returns the names of headers in order.
func headers[H ~map[string][]string](h H) (names []string) {
	for name, values := range h {
		for range values {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// headerOrder returns the names of a mail's headers as they were sent.
func headerOrder(sent string) (names []string) {
	head, _, _ := strings.Cut(sent, "\r\n\r\n")
	for line := range strings.Lines(head) {
		if name, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
			names = append(names, name)
		}
	}
	return names
}
