package main

import (
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// terminalWidth returns the width of out in characters, or 0 if it is not a terminal.
func terminalWidth(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok {
		return 0
	}
	var console windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &console); err != nil {
		return 0 // not a terminal
	}
	return int(console.Window.Right-console.Window.Left) + 1
}
