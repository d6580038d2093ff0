package notify

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// format escapes a text for a service. Keys, labels and texts of alerts come from events: the result mentions no
// users, puts no link behind other words, and neither hides nor reorders letters.
type format func(text string) string

// formatOf returns the format for the service of a shoutrrr URL.
func formatOf(u *url.URL) format {
	scheme, _, _ := strings.Cut(strings.ToLower(u.Scheme), "+")
	switch scheme {
	case "slack":
		return entities
	case "discord", "mattermost", "notifiarr", "rocketchat", "teams", "zulip":
		return markdown
	case "telegram":
		return telegram(option(u, "parsemode"))
	case "pagerduty":
		return visible
	case "smtp":
		if isOff(option(u, "usehtml")) {
			return unencoded(visible)
		}
		return unencoded(unmarked)
	case "ntfy":
		if !isOff(option(u, "markdown")) {
			return markdown
		}
	}
	return unmarked
}

// unencoded returns a format for texts that are also used in mail headers: it breaks encoded words (RFC 2047),
// because a mail program would decode them into text that the format removes.
func unencoded(f format) format {
	return func(text string) string { return strings.ReplaceAll(f(text), "=?", "= ?") }
}

// option returns an option of a service from its URL, in lower case.
func option(u *url.URL, name string) string {
	for key, values := range u.Query() {
		if strings.EqualFold(key, name) && len(values) > 0 {
			return strings.ToLower(values[0])
		}
	}
	return ""
}

func isOff(flag string) bool {
	return flag == "" || flag == "no" || flag == "n" || flag == "false" || flag == "0"
}

// telegram returns the format for a parse mode of Telegram.
func telegram(mode string) format {
	switch mode {
	case "html":
		return entities
	case "markdown":
		return func(text string) string { return escaped(unmarked(text), "_*`[") }
	case "markdownv2":
		return func(text string) string { return escaped(unmarked(text), "_*[]()~`>#+-=|{}.!\\") }
	}
	return unmarked
}

// entities escapes text for services that decode HTML entities and use marks between < and >, such as Slack's
// <!channel> and <address|words>.
func entities(text string) string { return entityOf.Replace(inert(text)) }

var entityOf = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// markdown escapes text for services with any dialect of Markdown. A service without escapes finds no link and no
// mention either.
func markdown(text string) string {
	return outsideAddresses(unmarked(text), func(part string) string {
		return entityStart.ReplaceAllString(escaped(part, "\\`*_~|[]"), `\&$1`)
	})
}

// entityStart matches the beginning of an HTML entity.
var entityStart = regexp.MustCompile(`&([#a-zA-Z])`)

// escaped puts a backslash before marks.
func escaped(text, marks string) string {
	var out strings.Builder
	for _, r := range text {
		if strings.ContainsRune(marks, r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// unmarked is for services with unknown marks or without escapes: it replaces the marks of mentions and links by
// look-alike characters.
func unmarked(text string) string {
	text = hiddenEntity.ReplaceAllStringFunc(inert(text), disarmed)
	var out strings.Builder
	for i, r := range text {
		if r == '<' && opens(text[i+1:]) {
			r = '‹'
		}
		out.WriteRune(r)
	}
	return out.String()
}

// hiddenEntity matches an HTML entity; HTML allows it without the semicolon.
var hiddenEntity = regexp.MustCompile(`&(#[0-9]+|#[xX][0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*);?`)

// disarmed breaks an HTML entity of a hidden character. HTML mails and some Markdown renderers would decode it.
func disarmed(entity string) string {
	if read := html.UnescapeString(entity); visible(read) != read {
		return "＆" + entity[1:]
	}
	return entity
}

// inert removes the features common to all chat services: hidden letters, mentions, and links behind words.
func inert(text string) string { return strings.ReplaceAll(mentionless(visible(text)), "](", "] (") }

// opens reports whether a < before the text may begin a mention, a link or an HTML element, as opposed to "less
// than".
func opens(text string) bool {
	return text != "" && !strings.ContainsRune(" \n=0123456789", rune(text[0]))
}

// webAddress matches a web address in a text, up to a character that is a mark in some format.
var webAddress = regexp.MustCompile("(?i)https?://[^\\s<>()\\[\\]{}|*`\"'\\\\]+")

// outsideAddresses changes a text except for its web addresses, as links must stay intact.
func outsideAddresses(text string, change func(string) string) string {
	var out strings.Builder
	end := 0
	for _, at := range webAddress.FindAllStringIndex(text, -1) {
		if at[0] > 0 && !strings.ContainsRune(" \n(", rune(text[at[0]-1])) {
			continue // services may treat it as part of a word
		}
		out.WriteString(change(text[end:at[0]]))
		out.WriteString(text[at[0]:at[1]])
		end = at[1]
	}
	out.WriteString(change(text[end:]))
	return out.String()
}

// mentionless replaces each @ by its fullwidth form, except in e-mail addresses. In a web address it becomes %40,
// because the part before an @ could pass for the host.
func mentionless(text string) string {
	text = webAddress.ReplaceAllStringFunc(text, func(found string) string { return strings.ReplaceAll(found, "@", "%40") })
	var out strings.Builder
	for i, r := range text {
		if r == '@' && (i == 0 || !endsMailbox(text[i-1]) || !mailHost.MatchString(text[i+1:]) || everybody.MatchString(text[i+1:])) {
			r = '＠'
		}
		out.WriteRune(r)
	}
	return out.String()
}

// endsMailbox reports whether no service begins a mention after a character. Mattermost begins mentions after all marks, also
// those of mailboxes.
func endsMailbox(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

var (
	mailHost = regexp.MustCompile(`^[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+`)
	// everybody matches the group mentions of services after an @; Discord also detects them within a word.
	everybody = regexp.MustCompile(`(?i)^(everyone|here|(all|channel|group|room|stream|team|topic)\b)`)
)

// visible makes hidden characters visible: zero-width and bidirectional control characters are written as their code
// points. Letters of all scripts and line breaks stay; other control characters become spaces.
func visible(text string) string {
	var out strings.Builder
	before := rune(0)
	for i, r := range text {
		switch {
		case r == '\n':
			out.WriteRune(r)
		case unicode.Is(unicode.Cc, r), r == '\u2028', r == '\u2029':
			out.WriteByte(' ')
		case isJoiner(r) && before > unicode.MaxASCII && beginsBeyondASCII(text[i+len(string(r)):]):
			// Persian words and emoji have joiners between two letters. They are readable without them.
		case isHidden(r):
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
		default:
			out.WriteRune(r)
		}
		before = r
	}
	return out.String()
}

func isJoiner(r rune) bool { return r == '\u200c' || r == '\u200d' }

func beginsBeyondASCII(text string) bool { return text != "" && text[0] > unicode.MaxASCII }

// isHidden reports whether a character has no visible form. Arabic signs in Unicode's format category have one.
func isHidden(r rune) bool {
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
