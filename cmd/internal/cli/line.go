package cli

import "github.com/ecrec/ecrec/internal/printable"

const (
	// maxLine is the length of the longest error that is printed, in bytes. Errors contain names
	// of files, keys and columns, which may have any length.
	maxLine = 2048
	// lastOfLine is how many bytes of the end of a longer error are printed.
	lastOfLine = 512
)

// oneLine returns an error's text as a line for a terminal: without line ends, with control
// characters quoted, and with the middle of a long text omitted.
func oneLine(err error) string {
	return printable.Shorten(printable.Quote(printable.JoinLines(err.Error())), maxLine, lastOfLine)
}
