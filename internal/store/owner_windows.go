package store

import "io/fs"

// foreignOwner finds none: files have no numbers of users here.
func foreignOwner(fs.FileInfo) (user uint32, foreign bool) { return 0, false }
