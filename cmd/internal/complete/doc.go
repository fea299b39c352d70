// Package complete completes words of a command line in bash, zsh and fish.
//
// A script per shell (Script) calls the program at every Tab: ecrec __complete -- WORDS, whose last
// word is the one under the cursor. Candidates finds the completions in the model of the command
// line, so there is no second list of commands and flags.
//
// # Values
//
// The values of a flag or argument are those of the Source that its tag complete:"NAME" names, or
// those of its placeholder: lower-case words are values, DIR is a folder. Without candidates the
// shell completes names of files.
package complete
