// Package numbers compares the numbers in the documents with the records that they are from.
//
// # Terms
//
// A record is the files of one name in bench/results: the text that a benchmark printed, and its report.
// A claim is a number in a section of a document that names records. Code, names and links have no claims.
// A claim is found if rounding a number of its record to the digits of the claim gives the claim, in the same unit, in one that converts
// into it, or as a percentage. If its sentence or its row of a table names records, only these count. If not, all of the section count.
//
// The unit of a number in a record is that of its figure. In text it is behind the number, in its cell, at the end of its row or in the
// head above it. A number without any of these is in the unit of the claim. A claim without a unit has that of the numbers beside it, as in
// "1.5 (1 to 2) ms", or is found in any unit.
//
// The lines and keys that describe a run have no numbers here: commit, command, build, machine, settings, load and elapsed time.
// Hashes, dates, versions and other words with digits have none either.
//
// # Limits
//
// The comparison has no means to find the figure that a claim is about: a wrong number may be found by chance. The test prints how often random
// numbers of the same digits are found.
//
// # Rules
//
// A section that has numbers with units either names its records, or is listed in sections.txt: its numbers are limits, defaults or
// examples. A claim that is in no record is listed in claims.txt, with its source.
//
// The package is pure, except for Read.
package numbers
