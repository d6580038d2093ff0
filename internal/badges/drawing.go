package badges

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Colours of badges. White text on each of them has a contrast of at least 4.5.
const (
	Green = "#17713f"
	Red   = "#b42318"
	Grey  = "#5b6470"
)

// maxLabel is the longest label of a badge, in characters; a longer one is cut.
const maxLabel = 60

//go:embed badge.svg
var badgeSVG string

var badgeTemplate = template.Must(template.New("badge").Parse(badgeSVG))

// drawing is the data of the picture. Lengths are in pixels.
type drawing struct {
	Label, Text, Colour string
	LabelWidth, Width   int
}

// LabelMiddle and TextMiddle are the positions of the texts.
func (d drawing) LabelMiddle() int { return d.LabelWidth / 2 }
func (d drawing) TextMiddle() int  { return d.LabelWidth + d.TextWidth()/2 }

// TextWidth is the width of the coloured part.
func (d drawing) TextWidth() int { return d.Width - d.LabelWidth }

// LabelLength and TextLength are the widths of the texts, which readers without the font keep.
func (d drawing) LabelLength() int { return d.LabelWidth - padding }
func (d drawing) TextLength() int  { return d.TextWidth() - padding }

// padding is the space beside a text.
const padding = 12

// Draw returns a badge as SVG.
func Draw(label, text, colour string) ([]byte, error) {
	label = strings.Map(printable, label)
	if utf8.RuneCountInString(label) > maxLabel {
		label = string([]rune(label)[:maxLabel-1]) + "…"
	}
	d := drawing{Label: label, Text: text, Colour: colour, LabelWidth: widthOf(label)}
	d.Width = d.LabelWidth + widthOf(text)
	var b bytes.Buffer
	err := badgeTemplate.Execute(&b, d)
	return b.Bytes(), err
}

// printable replaces characters that XML does not allow, and those that change the direction of a text.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return utf8.RuneError
}

// widthOf returns about the width of a text with its padding, in 11 px sans-serif. textLength makes the text fit.
func widthOf(text string) int {
	width := 0
	for _, r := range text {
		switch {
		case r > 0x2E7F: // ideographs
			width += 120
		case strings.ContainsRune("ijlftrI.,:;'!|()[]/ ", r):
			width += 40
		case r == 'm' || r == 'w' || r == 'M' || r == 'W' || r == '@':
			width += 100
		default:
			width += 67
		}
	}
	return width/10 + padding
}
