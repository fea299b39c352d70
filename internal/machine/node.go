package machine

import "os"

// NodeName returns the name of this machine: Slurm's, if Slurm started this process, else the
// system's, else "".
func NodeName() string {
	if name := os.Getenv("SLURMD_NODENAME"); name != "" {
		return name
	}
	name, _ := os.Hostname()
	return name
}
