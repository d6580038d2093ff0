// Package docs contains the documentation, so that a node serves the pages of its own version without the internet.
package docs

import "embed"

// Files are the pages, in Markdown, and their pictures.
//
//go:embed *.md adr how-to operations reference pictures/*.png pictures/*.svg
var Files embed.FS
