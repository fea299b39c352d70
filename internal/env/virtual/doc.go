// Package virtual runs the goroutines of ranks in virtual time, as a function of a seed.
//
// # Terms
//
// A task is a goroutine of a run. One task runs at a time, until it waits, sleeps or ends. If several are ready at one moment, the
// next is drawn from the random numbers of the run. Time advances when no task is ready, to the time at which the next one is due.
// A Process is the Env of the tasks that run in it. It can be killed and frozen as one.
//
// # Two uses
//
// Package sim checks that no fault changes a bit of a result. Its schedulers delay tasks at random (Options.Yields, Lazy,
// SlowestWork), so that many orders are tried.
//
// Package bench measures what a cluster would take. NewClock returns a scheduler that delays nothing: time passes only where a
// task sleeps, or waits for one that does. Links (transport.NewNetwork) sleep while bytes pass them, and stand-ins of models while
// they would compute. All other work of our own code takes no time. It must not be read as measured.
//
// # Rules for tasks
//
// A task blocks only through its Env: a task that waits in another way stops all of them. Compute threads inside a kernel
// call are below this line, as in package env.
//
// A run that cannot continue ends with an error: Deadlock, Panicked or Endless. Its remaining tasks are unwound, so that none is
// left behind.
package virtual
