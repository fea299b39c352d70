// Package doctor says what this machine offers, whether jobs can run on it, and
// what ecrec would choose.
//
// # Checks
//
// A Check is one finding: ok, warn (works, but slower than it could, or not for every
// job), fail (jobs will fail here, or the machine has less than is expected) or absent
// (only what uses it needs it). Text and JSON are written from the same list. A machine
// is healthy when no check has failed; the command then ends with code 0, else with 1
// and one line on stderr that names what failed. Bad usage is 2.
//
// All questions are asked beside each other, and have 10 s together. One that hangs, for
// NVML or a file system may, is left behind and its check fails with who did not
// answer. As a thread that the kernel holds keeps its process from ending, the command
// asks in a process of its own, and waits for its report, not its end. Each check is a pure function of what was read, and
// what reads is apart.
//
// # Health checks of a cluster
//
// Slurm's HealthCheckProgram runs on every node as root, for at most 60 s, and must
// drain the node itself. Only code 1 is a matter of the node:
//
//	#!/bin/sh
//	# slurm.conf: HealthCheckProgram=/usr/local/sbin/ecrec-health, HealthCheckInterval=300
//	why=$(/usr/local/bin/ecrec doctor --json --expect cpus=64,memory=500GiB,gpus=4,shm=8GiB 2>&1 >/dev/null)
//	[ $? -ne 1 ] || scontrol update NodeName="$(hostname -s)" State=DRAIN Reason="$why"
//	exit 0
//
// Expect of memory less than is fitted: the kernel and the firmware keep some. The memory
// and cores that count are those which this process may use, so that the limits of its
// cgroup and its affinity, inside a job, are the job's.
//
// # Never
//
// It changes nothing but for a file that it writes into the output folder named to it, and
// removes. Libraries are searched for by file name, not opened, but for OpenBLAS
// and NVML (cgo builds only; after a failed NVML Init nothing else of it is called, for
// that would end the process).
package doctor
