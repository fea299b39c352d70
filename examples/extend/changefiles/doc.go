// Package changefiles is an example of a sink: for each commit it writes the rows that changed
// to a file, and gives the file its name when the commit is final.
package changefiles
