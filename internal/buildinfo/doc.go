// Package buildinfo identifies this program: its version, the commit it was built from,
// and how it was built.
//
// # Sources
//
// The version is the module's version if Go records one (go install ...@v0.5.0, or a build of
// a tagged commit), else the file VERSION. The commit is Go's stamp of the repository, else the
// end of a pseudo-version (go install ...@main), else the line that git archive wrote into
// commit.txt.
//
// # Invariant
//
// Builds of different commits have different Strings if their commits are recorded. The
// processes of a job compare them before they train together.
package buildinfo
