// Package lint holds the rules of this repository as tests: who may import whom,
// where cgo and blocking may stand, which functions of math are exact, and how
// files look. It has no code of its own. Every failure says what to do instead.
//
// An exception is a line in the table of its rule, with the reason.
package lint
