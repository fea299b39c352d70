// Package lint holds the rules of this repository as tests, and the measures of its
// house: English, names, sizes, and how files use each other. It reads source text
// only and imports no other package of the module.
//
// The failure of a rule names the remedy. An exception is a row in the table of its
// rule, with the reason. A measure has a limit in ratchet_test.go that only falls;
// once it reaches its bar it is a rule like the others.
//
// The measures work on any Go module, so that other projects can be measured with
// the same method: see the command internal/lint/measure.
package lint
