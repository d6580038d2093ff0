package main

import "io/fs"

// checkOwner refuses nothing: the modes of files do not say here who may write to them.
func checkOwner(string, fs.FileInfo) error { return nil }
