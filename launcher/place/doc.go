// Package place finds out which process of a job this is, and brings it together with the
// others.
//
// # Terms
//
// A place is a process number, the number of processes, and the rendezvous, the address at
// which the processes meet. Detect reads it from the environment of mpirun, srun, torchrun, or of ecrec's
// own launcher. The rendezvous is one of five (Rendezvous.Network): a TCP address, a local
// socket, a file, a file in the job's folder, or the launcher's key-value space (PMI).
//
// A rendezvous record is the host's address and the job's secret, in a file or in the
// key-value space.
//
// The host opens the rendezvous (Place.Open) and runs a Server there. The others visit it
// (Place.Visit) until it replies.
//
// # Invariants
//
//   - All processes of a job find the same rendezvous, and processes of another job another.
//   - The secret is on no command line. A record is readable by its user only.
//   - A stale record is harmless: its address fails the secret check, and the visitor keeps
//     polling.
//   - If the environment says that all processes are on one host, no socket listens beyond
//     loopback.
//   - Every wait has a limit, and its error names the setting to change.
//
// # What it never does
//
// It starts no worker and decides nothing about a running job.
package place
