// Package heartbeat holds the time limits after which a silent process is lost.
//
// The death of a process is detected at once, by the end of its connections. Heartbeats detect
// the failures that end no connection: a suspended process, a machine without power, a cut
// network. Packages launcher, transport and sim use the same limits.
//
// It holds numbers only: it sends nothing, and reads no clock.
package heartbeat
