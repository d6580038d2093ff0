package main

import "io/fs"

// checkOwner accepts every file, because file modes on Windows do not reflect write access.
func checkOwner(string, fs.FileInfo) error { return nil }
