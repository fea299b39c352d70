// Package numbers compares the numbers in the documents with the records that they are from.
//
// # Terms
//
// A record is the files of one name in bench/results: the text that a benchmark printed, and its report.
// A claim is a number in a section of a document that names records. Code, names and links have no claims.
// A claim is found if rounding a number of one of the section's records to the digits of the claim gives the claim, in the same unit or
// one that is larger or smaller by a power of 1,000, or as a percentage of it.
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
