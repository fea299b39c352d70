// Package k8s writes the manifests of a run on Kubernetes: a ConfigMap with the run config, and a
// JobSet (jobset.x-k8s.io/v1alpha2). It is pure: it calls no cluster and reads no file.
//
// # How a job runs
//
// The JobSet has one Indexed Job with a pod per process. A pod's RANK is its completion index. The
// processes meet by a rendezvous file on the volume of runs (--rdzv FILE), which contains the
// secret. The name of the first pod would not do: a restarted pod must find the job even after the
// first pod is lost. The headless service of the JobSet gives pods stable names.
//
// # Losses
//
// The Job restarts a lost pod alone (backoffLimitPerIndex). Its process rejoins as a spare while
// the others train. Without ec.code all processes end with it, and all pods restart and resume from
// the newest checkpoint. A pod evicted by its node does not count as a failure. Exit code 2, a bad
// config, ends the JobSet at once. The first process that exits with 0 also ends it: by then all
// processes have written their results.
//
// # Invariants
//
//   - Every string is in the manifest unchanged, for any characters.
//   - The manifests decode strictly into the types of Kubernetes and JobSet, and satisfy JobSet's
//     schema (tools/k8scheck, a separate module, checks this).
package k8s
