// Package filelock takes advisory locks on open files. A lock belongs to the open file: it ends
// when the file is closed or its process dies.
//
// Locks are those of flock(2). They are advisory: a program that takes no lock is not kept out.
package filelock
