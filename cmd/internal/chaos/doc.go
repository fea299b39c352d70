// Package chaos parses --chaos: faults to inject into a run.
//
//	kill:RANK@STEP[:POINT]    the worker that hosts RANK dies by SIGKILL
//	node:RANK@STEP            its supervisor dies too, as if the machine were lost
//	stop:RANK@STEP:DURATION   the worker is frozen (SIGSTOP, then SIGCONT)
//
// A fault fires when RANK reaches POINT of STEP. POINT is a name from the trainer's list; the
// default is the first. "steady" waits until all rows lost before have been fully redundant
// for 50 steps. Each fault fires once in a job, even if its step is replayed. Two equal specs
// are two faults: the second fires when the step is replayed.
//
// The package is pure. The launcher injects the faults and ensures that each fires once.
package chaos
