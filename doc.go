// Package ecrec holds the version of this module's next release, from the file VERSION.
//
// The program is cmd/ecrec. README.md describes it, ARCHITECTURE.md its packages. This
// package imports none of them: it is in the root because a package can embed only files of
// its own folder.
package ecrec
