//go:build !linux

package report

// makeNameless reports that no file can be made without a name.
func makeNameless(string) (ok bool) { return false }
