package notify

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// format writes a text for what a service makes of texts. Keys, labels and texts of alerts come from events: in the result
// they mention nobody, put no address behind other words, and neither hide letters nor turn them around.
type format func(text string) string

// formatOf is the format of the service that a URL of shoutrrr names.
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

// unencoded is a format for texts that stand in headers of mails, too: the text has no encoded words (RFC 2047), by which a mail
// program would turn ASCII into what a format has taken out.
func unencoded(f format) format {
	return func(text string) string { return strings.ReplaceAll(f(text), "=?", "= ?") }
}

// option is an option of a service in lower case, as its URL has it.
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

// telegram is the format of a parse mode of Telegram.
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

// entities is for services that read the entities of HTML and have their marks between < and >, as Slack has <!channel>
// and <address|words>.
func entities(text string) string { return entityOf.Replace(inert(text)) }

var entityOf = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// markdown is for services that read Markdown, of whatever dialect. Its marks are escaped; a service that knows no
// escapes finds no link and no mention all the same.
func markdown(text string) string {
	return outsideAddresses(unmarked(text), func(part string) string {
		return entityStart.ReplaceAllString(escaped(part, "\\`*_~|[]"), `\&$1`)
	})
}

// entityStart is what an entity of HTML begins with.
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

// unmarked is for services whose marks cannot be escaped, or are not known: the marks of mentions and links become
// characters that look like them.
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

// hiddenEntity is an entity of HTML, which HTML reads without its semicolon, too.
var hiddenEntity = regexp.MustCompile(`&(#[0-9]+|#[xX][0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*);?`)

// disarmed is an entity that is not one any more, where it is that of a character that hides. Mails in HTML and some readers of Markdown
// would show the character.
func disarmed(entity string) string {
	if read := html.UnescapeString(entity); visible(read) != read {
		return "＆" + entity[1:]
	}
	return entity
}

// inert is a text without what works in chats whatever else they read: letters that hide, mentions, and what stands between words
// and the address behind them.
func inert(text string) string { return strings.ReplaceAll(mentionless(visible(text)), "](", "] (") }

// opens reports whether a < before a text may begin a mention, a link or an element of HTML, and is not "less than".
func opens(text string) bool {
	return text != "" && !strings.ContainsRune(" \n=0123456789", rune(text[0]))
}

// webAddress is a web address in a text, up to what is a mark in some format.
var webAddress = regexp.MustCompile("(?i)https?://[^\\s<>()\\[\\]{}|*`\"'\\\\]+")

// outsideAddresses changes a text but for the web addresses in it, which have to stay as they are to lead anywhere.
func outsideAddresses(text string, change func(string) string) string {
	var out strings.Builder
	end := 0
	for _, at := range webAddress.FindAllStringIndex(text, -1) {
		if at[0] > 0 && !strings.ContainsRune(" \n(", rune(text[at[0]-1])) {
			continue // services may take it for a word
		}
		out.WriteString(change(text[end:at[0]]))
		out.WriteString(text[at[0]:at[1]])
		end = at[1]
	}
	out.WriteString(change(text[end:]))
	return out.String()
}

// mentionless is a text in which each @ is one of fullwidth, but for those of e-mail addresses. In a web address it is %40:
// what is before an @ there passes for the host.
func mentionless(text string) string {
	text = webAddress.ReplaceAllStringFunc(text, func(found string) string { return strings.ReplaceAll(found, "@", "%40") })
	var out strings.Builder
	for i, r := range text {
		if r == '@' && (i == 0 || !ofMailbox(text[i-1]) || !mailHost.MatchString(text[i+1:]) || everybody.MatchString(text[i+1:])) {
			r = '＠'
		}
		out.WriteRune(r)
	}
	return out.String()
}

func ofMailbox(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_%+.-", c) >= 0
}

var (
	mailHost = regexp.MustCompile(`^[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+`)
	// everybody is what services know after an @, Discord also within a word.
	everybody = regexp.MustCompile(`(?i)^(everyone|here|(all|channel|group|room|stream|team|topic)\b)`)
)

// visible is a text in which nothing works in secret: what has no width, or turns letters around, is written as its code point.
// Letters of all scripts stay, and so do line breaks; other controls become spaces.
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
			// Persian words and emoji have them between two letters. They are read without.
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

// isHidden reports whether a character has no shape of its own. The Arabic signs that Unicode has among the formats have one.
func isHidden(r rune) bool {
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
