// Package runpage writes the report of a run as one HTML file: its state, curves, losses and config.
//
// The file needs no script, no network and no other file, so it can be mailed and archived. Curves
// are SVG, drawn by gonum/plot. Text from the run's files is escaped.
//
// The package draws the values that package rundir has read. It reads no files.
package runpage
