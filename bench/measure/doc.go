// Package measure times the steps of a job, in blocks.
//
// A block is some steps of one mode, after a few that are not timed. Blocks of several modes
// take turns, so that changes of the machine affect all modes equally. All rows are touched
// before, as in a run of some length: the first touch of a row draws it and takes memory from
// the system.
//
// Modes are those of cache.mode, and two that train no model: Ideal has every row at hand
// and exchanges none; Unprotected runs the config's cache.mode as if ec.code were "none".
package measure
