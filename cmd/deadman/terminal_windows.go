package main

import (
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// terminalWidth is how many letters fit on a line of out; 0 where that is no terminal.
func terminalWidth(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok {
		return 0
	}
	var console windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &console); err != nil {
		return 0 // no terminal
	}
	return int(console.Window.Right-console.Window.Left) + 1
}
