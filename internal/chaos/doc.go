// Package chaos reads what --chaos asks for: faults that are done to a run on
// purpose, to see it recover.
//
//	kill:RANK@STEP[:POINT]    the worker that hosts RANK dies by SIGKILL
//	node:RANK@STEP            so does its supervisor, as if its machine were lost
//	stop:RANK@STEP:DURATION   the worker stands still (SIGSTOP, then SIGCONT)
//
// A fault happens when RANK comes to POINT of STEP: a name from a list that the
// trainer has, its first where none is given, or "calm", which waits until all that was
// lost before has been whole for 50 steps. It happens once in a job, also when the step
// is done again. Two equal specs are two faults: the second happens when the step is
// done again.
//
// The package is pure. Who carries a fault out, and sees that it happens once, is the
// launcher.
package chaos
