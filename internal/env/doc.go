// Package env is the one place where a rank can block.
//
// A rank's code never touches a channel, a sync primitive, a timer or the
// clock directly: it starts goroutines, waits, sleeps and does disk work
// through an Env. Real() maps that to the Go runtime. A simulator instead passes a
// seeded baton among the ranks' goroutines: it runs the production loop itself, not
// a model of it.
//
// The only primitive that blocks on other goroutines is Monitor.Wait. Queue,
// Event and everything in transport and collectives are built on it.
//
// Compute threads inside a kernel call are below this line: they are finite,
// hold no protocol state and never wait for another rank.
package env
