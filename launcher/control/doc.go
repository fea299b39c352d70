// Package control makes the decisions of a job of several processes: which processes it has,
// which ranks each hosts, how a loss is repaired, when the job ends and with which exit code.
//
// # Terms
//
// A Job is the state machine of all processes; a Supervisor is that of one. Both take an
// Event at a time (Step) and return Actions, which a runtime performs (package launcher). The
// runtimes and the workers exchange Messages.
//
// A member is a supervisor, or the launcher of --np. A slot is a process as the job sees it.
// Other terms are those of package launcher.
//
// # Invariants
//
//   - Step is a function of the state and the event: no clock, no goroutine, no I/O. Times are
//     in the events.
//   - Copies of a job that have taken the same events are equal, and return equal actions.
//   - Each rank is hosted once in each generation, and no two memberships have one generation.
//   - Members have distinct numbers for ever. At most one live member has a place.
//   - A message of an older generation or incarnation changes nothing, so messages may be
//     repeated and may arrive late.
//   - A job ends once, with at most one message about it. A supervisor leaves once, and no
//     worker survives it.
//
// The stories in testdata show each rule: events and the actions that must follow.
//
// # What it never does
//
// It starts nothing, sends nothing and reads no clock.
package control
