package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	mailconfig "github.com/nicholas-fedor/shoutrrr/pkg/services/email/smtp"

	"deadman/alerts"
	"deadman/internal/addresses"
)

// email is a channel to a mail server. shoutrrr reads its URL, but its mails have no Message-ID, nothing that keeps the
// mails of a job together, and headers in random order.
type email struct {
	config mailconfig.Config
	format format

	mu       sync.Mutex
	attempts map[string]mailAttempts // of messages that some recipients took, and others may take later, by key
}

// mailAttempts are the attempts to send a message.
type mailAttempts struct {
	settled []string // recipients that took it or were refused for good
	refused []error  // of the recipients that were refused for good
}

// maxMailAttempts is the maximum number of messages in email.attempts. Beyond, they are forgotten, and repeated to all recipients.
const maxMailAttempts = 1000

// refusedRecipients is the error of a mail that the server took, for other recipients than those that it refused for good.
type refusedRecipients struct{ error }

func (e refusedRecipients) Unwrap() error { return e.error }

// newEmail creates a channel from an smtp:// URL without connecting. Its error may contain secrets.
func newEmail(u *url.URL) (*email, error) {
	var service mailconfig.Service
	if err := service.Initialize(u, nil); err != nil {
		return nil, err
	}
	c := service.Config.Clone()
	c.FixEmailTags()
	for _, to := range c.ToAddresses {
		if strings.ContainsAny(to, "\r\n") {
			return nil, fmt.Errorf("the recipient %q has a line break", to)
		}
	}
	return &email{config: c, format: formatOf(u), attempts: make(map[string]mailAttempts)}, nil
}

// Send implements Channel. One mail is for all recipients:
//
//  1. Recipients that are refused for good do not keep the mail from the others. If the others take it, the error is
//     refusedRecipients.
//  2. Recipients that are refused for now are an error. The next attempt is for them alone.
//  3. If no recipient takes the mail, the next attempt is for all.
func (e *email) Send(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	client, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	before := e.before(m)
	after := mailAttempts{slices.Clone(before.settled), slices.Clone(before.refused)}
	if err := client.Mail(e.config.FromAddress); err != nil {
		return err
	}
	var later []error
	taken := false
	for _, to := range e.config.ToAddresses {
		if slices.Contains(before.settled, to) {
			continue
		}
		err := client.Rcpt(to)
		var answer *textproto.Error
		switch {
		case err == nil:
			taken = true
			after.settled = append(after.settled, to)
		case !errors.As(err, &answer): // no answer
			return fmt.Errorf("mail to %s: %w", to, err)
		case answer.Code < 500:
			later = append(later, fmt.Errorf("mail to %s: %w", to, err))
		default:
			after.settled, after.refused = append(after.settled, to), append(after.refused, fmt.Errorf("mail to %s: %w", to, err))
		}
	}
	if taken {
		if err := e.sendData(client, e.compose(m)); err != nil {
			return err
		}
	}
	_ = client.Quit() // the server has accepted the mail; some close the connection in place of an answer
	return e.settle(m, after, taken || len(before.settled) > 0, later)
}

// before returns the earlier attempts to send a message.
func (e *email) before(m Message) mailAttempts {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.attempts[m.Key()]
}

// settle records the attempts to send a message, and returns its error. taken means that a recipient took it, now or before.
func (e *email) settle(m Message, all mailAttempts, taken bool, later []error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.attempts, m.Key())
	switch err := errors.Join(append(later, all.refused...)...); {
	case err == nil:
		return nil
	case taken && len(later) == 0:
		return refusedRecipients{err}
	default:
		if taken && m.ID != 0 {
			if len(e.attempts) >= maxMailAttempts {
				clear(e.attempts)
			}
			e.attempts[m.Key()] = all
		}
		return err
	}
}

// connect opens a session: TLS, as the URL requires it and the server offers it, and authentication.
func (e *email) connect(ctx context.Context) (client *smtp.Client, err error) {
	c := e.config
	conn, err := addresses.Dialer(c.Timeout).DialContext(ctx, "tcp", net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	if until, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(until); err != nil {
			return nil, err
		}
	}
	secure := &tls.Config{ServerName: c.Host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.SkipTLSVerify} //nolint:gosec // an option of the URL
	implicit := c.Encryption == mailconfig.EncMethods.ImplicitTLS || c.Encryption == mailconfig.EncMethods.Auto && strconv.Itoa(int(c.Port)) == smtpsPort
	if implicit {
		conn = tls.Client(conn, secure)
	}
	if client, err = smtp.NewClient(conn, c.Host); err != nil {
		return nil, err
	}
	if err := client.Hello(e.clientName()); err != nil {
		return nil, err
	}
	offers, _ := client.Extension("STARTTLS")
	switch {
	case implicit || !c.UseStartTLS:
	case offers:
		if err := client.StartTLS(secure); err != nil {
			return nil, err
		}
	case c.RequireStartTLS:
		return nil, errors.New("the mail server does not offer STARTTLS, which the URL requires")
	}
	if auth := e.auth(); auth != nil {
		if err := client.Auth(auth); err != nil {
			return nil, err
		}
	}
	return client, nil
}

// clientName returns the name with which the client greets the server.
func (e *email) clientName() string {
	if e.config.ClientHost != "auto" {
		return e.config.ClientHost
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "localhost"
}

// auth returns the authentication of the URL; nil: none.
func (e *email) auth() smtp.Auth {
	c := e.config
	switch c.Auth {
	case mailconfig.AuthTypes.Plain:
		return smtp.PlainAuth("", c.Username, c.Password, c.Host)
	case mailconfig.AuthTypes.CRAMMD5:
		return smtp.CRAMMD5Auth(c.Username, c.Password)
	case mailconfig.AuthTypes.OAuth2:
		return mailconfig.OAuth2Auth(c.Username, c.Password)
	case mailconfig.AuthTypes.Login:
		return mailconfig.LoginAuth(c.Username, c.Password, c.Host)
	}
	return nil
}

// sendData sends a mail to the recipients that the server accepted.
func (e *email) sendData(client *smtp.Client, sent []byte) error {
	w, err := client.Data()
	if err != nil {
		return err
	}
	_, err = w.Write(sent)
	return errors.Join(err, w.Close())
}

// compose returns a mail, headers first. Its lines end with \n; the protocol replaces this. All attempts are for the same
// recipients in its header.
func (e *email) compose(m Message) []byte {
	title, text := fitting(m, e.format, textSize)
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) }
	at := m.At
	if at.IsZero() {
		at = time.Now()
	}
	from := mail.Address{Name: e.config.FromName, Address: e.config.FromAddress}
	header("Date", at.Format(time.RFC1123Z))
	header("From", from.String())
	header("To", strings.Join(e.config.ToAddresses, ",\n "))
	header("Subject", strings.ReplaceAll(mime.QEncoding.Encode("UTF-8", title), "?= =?", "?=\n =?"))
	header("Message-ID", e.id(m.Key())) // of all attempts, so that mail servers and programs drop a repeated mail
	if threads := e.threads(m); len(threads) > 0 {
		header("In-Reply-To", threads[len(threads)-1])
		header("References", strings.Join(threads, "\n "))
	}
	header("Auto-Submitted", "auto-generated") // no answer of an absent recipient (RFC 3834)
	header("MIME-Version", "1.0")
	if !e.config.UseHTML {
		header("Content-Type", plainText)
		header("Content-Transfer-Encoding", quotedPrintable)
		b.WriteByte('\n')
		writeQuoted(&b, text)
		return b.Bytes()
	}
	parts := multipart.NewWriter(&b)
	_ = parts.SetBoundary("=_" + m.Key()) // no quoted line begins with it
	header("Content-Type", mime.FormatMediaType("multipart/alternative", map[string]string{"boundary": parts.Boundary()}))
	b.WriteByte('\n')
	for _, part := range [][2]string{{plainText, text}, {`text/html; charset="UTF-8"`, "<pre>" + html.EscapeString(text) + "</pre>"}} {
		w, _ := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {part[0]}, "Content-Transfer-Encoding": {quotedPrintable}})
		writeQuoted(w, part[1])
	}
	_ = parts.Close()
	return bytes.ReplaceAll(b.Bytes(), []byte("\r\n"), []byte("\n"))
}

const (
	plainText       = `text/plain; charset="UTF-8"`
	quotedPrintable = "quoted-printable"
)

// writeQuoted writes a text to a buffer in quoted-printable.
func writeQuoted(to io.Writer, text string) {
	w := quotedprintable.NewWriter(to)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
}

// maxThreads is the maximum number of jobs that the headers of a mail name.
const maxThreads = 50

// threads returns an id for each of the first jobs of a message. The mails about a job name its id, so that mail programs
// show them together. No mail has it.
func (e *email) threads(m Message) (ids []string) {
	of := slices.Clone(m.Alerts)
	for _, k := range m.Acks.First {
		of = append(of, k.Alert)
	}
	for _, a := range of {
		id := e.id("job_" + threadOf(m, a))
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		if len(ids) == maxThreads {
			break
		}
	}
	return ids
}

// threadOf returns a key of the job of an alert. A job that goes on, such as that of a heartbeat, may have started anew
// when its alert is resolved, so that the closed alert counts.
func threadOf(m Message, a alerts.Alert) string {
	for _, id := range a.Closes {
		if closed, ok := m.Closed[id]; ok {
			a = closed
			break
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", a.Rule, a.Key, a.Since.UnixMicro()))
	return hex.EncodeToString(sum[:12])
}

// id returns an id of a mail in the domain of the sender.
func (e *email) id(local string) string {
	_, domain, _ := strings.Cut(e.config.FromAddress, "@")
	if domain == "" || strings.ContainsAny(domain, "<> \t") {
		domain = "deadman.invalid"
	}
	return "<" + local + "@" + domain + ">"
}
