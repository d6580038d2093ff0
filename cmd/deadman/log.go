package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
)

// The formats of the log.
const (
	logAuto = "auto" // coloured lines on a terminal, text elsewhere
	logText = "text"
	logJSON = "json"
)

func newLog(out io.Writer, colours bool, r serveConfig) *slog.Logger {
	options := &slog.HandlerOptions{Level: r.level}
	switch {
	case r.format == logJSON:
		return slog.New(slog.NewJSONHandler(out, options))
	case r.format == logAuto && isTerminal(out):
		return slog.New(tint.NewTextHandler(out, &tint.Options{Level: r.level, TimeFormat: time.TimeOnly, NoColor: !colours}))
	}
	return slog.New(slog.NewTextHandler(out, options))
}
