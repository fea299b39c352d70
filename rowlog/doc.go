// Package rowlog keeps the rows of one owner on a disk, as a log of sealed epochs.
//
// A Log takes the rows that an epoch wrote, in the order of their slots, and appends them as one segment. The
// newest version of a row is in the last segment that holds it. So the log is the place from which an evicted
// row is read, an increment of a checkpoint, and the state that a job restarts from if all its processes are lost.
// Writes are sequential for any rows, and a set of rows is there completely or not at all. OpenEmbedding
// (ICDE 2023, section V.C) keeps versions of rows in place, and scans all of them at a restart; here a restart reads the
// heads of the segments.
//
// # Files
//
// A log is a folder of files, numbered in the order of writing. A file holds segments, each at a multiple of Align
// bytes. A segment has a head, its slots, its rows, and an extra part. The segments of epochs have rows and bytes of the caller,
// such as the dense part; an epoch may have parts before it, which count once it is complete. Copies hold rows of
// earlier segments. Others list the files that exist, and make epochs void. The order of segments is that of
// writing, and the newest version of a row is in the last segment that holds it and is not void.
//
// Each row is preceded by a sum of its bytes, its slot and the place of the segment, and each head has sums of itself and of the
// slots. So a row that was written to a wrong place, or is a rest of an earlier log, is not taken for a row of this one.
//
// # Durability
//
// Append returns when the bytes are with the operating system. Sync makes all segments durable. A file is durable before the next
// one is made, and the head of that one lists all files before it, with their sizes. So a file that is lost or
// shortened is noticed, and only the newest file can be torn by a loss of power. Its heads tell up to which offset it
// was durable when they were written. Open reads the segments behind that completely, and the log ends before the
// first that is damaged. Of all others it reads the heads and slots.
//
// The ranks of a job may be durable up to different steps. The job agrees on the least one, and each rank calls CutTo.
//
// # Reads and writes
//
// OSDir is a folder of the operating system. Its files bypass the page cache with O_DIRECT, as far as the file system
// allows. A Read of many rows gives each file lists of parts, which io_uring reads many at a time. If the system refuses
// io_uring, at the start or later, 8 goroutines read the parts by preads: the results are the same. Each OSDir has a
// ring of its own, with 4 MiB of memory, and reads with it one list at a time. OSDir.Way names the calls in use.
//
// # Cleaning
//
// Rows that later epochs replace are dead. Clean copies the others of a file that is mostly dead to the end of the
// log, at a bounded rate, as the segments of a log-structured file system are cleaned (Rosenblum and Ousterhout, SOSP
// 1991: the file with the smallest share of newest rows first). The file is dropped when the copies are durable, and
// the job never goes back before the newest epoch of that time (Settle): until then a cut may make epochs void that
// replaced rows of the file. It is removed when the segment that says so is durable. Heads have the settled step, so the next process
// knows before which step rows may be missing.
//
// # Invariants
//
//   - Steps of epochs ascend, except that those after a CutTo follow on its step.
//   - CutTo is called after Open of a folder that holds files, before anything is written. Its step is not before the
//     settled one, or 0, which begins the log anew.
//   - After a failed Sync only reads are possible: later ones would not show which bytes were lost. A process that opens the log
//     afterwards, without a loss of power, does not notice it either; this is not handled yet.
//   - A failed Append changes nothing: its bytes are cut off, and the next one may succeed. DropParts cuts off its parts too.
//   - A log of another format is an error. It is never taken for a torn one.
//   - Read and Each return the bytes that were appended, or an error that names the file. They never return others.
//   - Sizes that a file names are compared with the file's size before memory is allocated.
package rowlog
