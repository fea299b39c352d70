// Package sim runs whole clusters in one process, in virtual time, with faults, and
// checks that none of them changes a bit of what a job gives (DESIGN.md sections 6 and
// 8).
package sim
