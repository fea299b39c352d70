// Package forecast predicts the memory, the traffic and the time of a step of a job from its config, before anything
// is started.
//
// It opens the data of the job, counts the messages of some steps of its ids with package plan, and measures how long this
// machine takes for the work of one rank: the kernels that training runs, on a slice of the run, one after another as in a
// step. As many copies run at a time as processes share the machine, within its cores and memory. Messages are measured
// between up to 16 endpoints of this process. It allocates the rows of a step, and never the tables.
//
// # Terms
//
// A machine hosts some processes, and a process one rank. A slice is the samples of one trainer in a step.
//
// # Invariants
//
// Counts depend on config and data alone. Times depend on the machine and on its other work meanwhile: each is the median of
// some repeats. A measurement ends after about a second, but not before three repeats.
package forecast
