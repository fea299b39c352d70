// Package manpage writes the man page of a command line, ecrec(1), from its kong model.
//
// The page is in roff with the macros of man(7), for man-db, groff and mandoc. It contains every
// command, argument and flag with its help, then notes that are not in the model: exit codes,
// environment, files.
package manpage
