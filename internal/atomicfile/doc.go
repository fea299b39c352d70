// Package atomicfile writes files that are either whole or not there.
//
// A File is written under a temporary name in the folder of its final one.
// Commit flushes it to the disk and renames it into place; until then, and
// whenever a process dies half-way, whatever stood under the final name before
// still stands there, untouched. Temporary names start with a dot and end in
// ".tmp-" and digits; what a dead process left of them RemoveLeftovers removes.
//
// All calls block on the disk: rank code makes them inside Env.Do.
package atomicfile
