// Package doctor reports the resources of this machine, whether jobs can run on it, and the
// choices that ecrec would make.
//
// # Checks
//
// A Check is one finding: ok, warn (works, but slower than it could, or not for every job), fail
// (jobs will fail here, or the machine is below the expectations) or absent (only jobs that use
// it need it). Text and JSON are written from the same list. A machine is healthy if no check
// has failed. The command then ends with code 0, else with 1 and one line on stderr that names
// the failures. Bad usage is code 2.
//
// All questions run concurrently and have 10 s together, or 2 minutes where the kernels for a GPU are
// compiled first. One that hangs, as NVML or a file system
// may, is abandoned, and its check fails with the name of the source. A process cannot end while
// the kernel holds one of its threads. So the command runs the checks in a process of their own,
// and waits for its report, not for its end. Each check is a pure function of values that
// other functions read.
//
// # Health checks of a cluster
//
// Slurm's HealthCheckProgram runs on every node as root, for at most 60 s, and must drain the node
// itself. Only code 1 is a problem of the node:
//
//	#!/bin/sh
//	# slurm.conf: HealthCheckProgram=/usr/local/sbin/ecrec-health, HealthCheckInterval=300
//	why=$(/usr/local/bin/ecrec doctor --json --expect cpus=64,memory=500GiB,gpus=4,shm=8GiB 2>&1 >/dev/null)
//	[ $? -ne 1 ] || scontrol update NodeName="$(hostname -s)" State=DRAIN Reason="$why"
//	exit 0
//
// Expect less memory than is installed: the kernel and the firmware reserve some. Memory and cores
// count only as far as this process may use them. Inside a job, the limits of its cgroup and its
// affinity apply.
//
// # Never
//
// It changes nothing, except that it writes a file to the given output folder and removes it.
// Libraries are searched for by file name and not opened, except OpenBLAS and NVML (in cgo
// builds). After a failed Init no other function of NVML is called, since that would end the
// process.
package doctor
