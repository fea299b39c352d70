// Package printable makes text of unknown origin safe for a terminal and a log: names of files
// and columns, messages of other processes.
package printable
