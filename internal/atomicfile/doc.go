// Package atomicfile writes files that are either complete or absent.
//
// A File is written under a temporary name in the folder of its final one.
// Commit flushes it to the disk and renames it. Until then, and if the process dies, a
// file that already has the final name remains unchanged. Temporary names start with a
// dot and end in ".tmp-" and digits. RemoveLeftovers removes those of dead processes.
//
// All calls block on the disk: rank code makes them inside Env.Do.
package atomicfile
