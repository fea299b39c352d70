// Package runs joins a job and its outputs: it is what the commands train, eval
// and export do once flags and config are read.
//
// A run writes into its output folder (CONFIG.md, Outputs) only after config and
// data have been found good: what fails before that leaves nothing behind.
package runs
