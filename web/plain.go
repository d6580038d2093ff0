package web

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
)

//go:embed plain.css
var plainCSS string

// plainStyle is the look of the pages that stand alone: the way in, and the description of the API.
var plainStyle = template.CSS(plainCSS) //nolint:gosec // our own file

// policy lets a page's own style in, and nothing else but what more says.
func policy(css, more string) string {
	sum := sha256.Sum256([]byte(css))
	return fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; %s; frame-ancestors 'none'",
		base64.StdEncoding.EncodeToString(sum[:]), more)
}
