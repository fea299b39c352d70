package place

import (
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"strings"
)

// The variables that ecrec's own launcher sets for its supervisors.
const (
	EnvProcess   = "ECREC_PROCESS"
	EnvProcesses = "ECREC_PROCESSES"
	EnvRdzv      = "ECREC_RDZV"
	EnvControl   = "ECREC_CONTROL" // set: the supervisor has a connection to the launcher
	EnvSecret    = "ECREC_SECRET"  // also set by users, if nothing else brings a secret to all hosts
)

// environment is the variables by which one kind of launcher gives a process its place.
type environment struct {
	name          string
	process, size string // variables; the first is read only if the second is set
	started       bool   // Place.Started: false if users set the variables by hand
	// meet completes the place: OneHost, and Rendezvous unless --rdzv gives it.
	meet func(env func(string) string, p *Place, rdzv string) error
}

const (
	fromLauncher = "ecrec's own launcher"
	fromOpenMPI  = "Open MPI"
)

// environments are tried in this order. Slurm is after the others: mpirun inside a batch job
// inherits the variables of the job's script.
var environments = []environment{
	{fromLauncher, EnvProcess, EnvProcesses, true, meetLaunched},
	{fromOpenMPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true, meetOpenMPI},
	{"PMI", "PMI_RANK", "PMI_SIZE", true, meetPMI},
	{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", true, meetSlurm},
	{"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", false, meetTorch},
}

// meetLaunched is for a supervisor of ecrec's own launcher.
func meetLaunched(env func(string) string, p *Place, _ string) error {
	address := env(EnvRdzv)
	if err := checkAddress(EnvRdzv, address); err != nil {
		return err
	}
	p.OneHost, p.Rendezvous = isLoopback(address), parseRdzv(address)
	return nil
}

// meetOpenMPI: all processes have the address of one mpirun and one name space.
func meetOpenMPI(env func(string) string, p *Place, rdzv string) error {
	key := env("PMIX_NAMESPACE") + " " + env("OMPI_MCA_orte_hnp_uri")
	if isAllLocal(env, "OMPI_COMM_WORLD_LOCAL_SIZE", p.Processes) && (rdzv != "" || key != " ") {
		p.meetHere(rdzv, key)
		return nil
	}
	// 1234.0;tcp://10.0.0.5,192.168.1.5:40001: mpirun runs on the machine of process 0, unless a
	// host file names another. Then process 0 cannot listen there, and its error names the address.
	_, uri, _ := strings.Cut(env("OMPI_MCA_orte_hnp_uri"), "tcp://")
	host := uri[:max(0, strings.IndexAny(uri, ",:"))]
	return p.meetAcross(env, rdzv, host, key)
}

// meetPMI: MPICH's mpirun and srun --mpi=pmi2 have a key-value space.
func meetPMI(env func(string) string, p *Place, rdzv string) error {
	p.OneHost = isAllLocal(env, "MPI_LOCALNRANKS", p.Processes) || env("SLURM_STEP_NUM_NODES") == "1"
	p.Rendezvous = parseRdzv(rdzv)
	if rdzv != "" {
		return nil
	}
	fd := env("PMI_FD")
	if n, err := strconv.Atoi(fd); err != nil || n < 0 {
		return p.meetAcross(env, rdzv, "", "")
	}
	p.Rendezvous = Rendezvous{"pmi", fd}
	return nil
}

// meetSlurm: process 0 runs on the first host of the step.
func meetSlurm(env func(string) string, p *Place, rdzv string) error {
	key := strings.Join([]string{env("SLURM_CLUSTER_NAME"), firstSet(env, "SLURM_JOB_ID", "SLURM_JOBID"),
		firstSet(env, "SLURM_STEP_ID", "SLURM_STEPID"), env("SLURM_RESTART_COUNT")}, ".")
	if env("SLURM_STEP_NUM_NODES") == "1" {
		p.meetHere(rdzv, key)
		return nil
	}
	return p.meetAcross(env, rdzv, firstHost(env("SLURM_STEP_NODELIST")), key)
}

// meetTorch reads the variables that torchrun and similar launchers set.
func meetTorch(env func(string) string, p *Place, rdzv string) error {
	address := rdzv
	if address == "" {
		host, port := env("MASTER_ADDR"), env("MASTER_PORT")
		if host == "" || port == "" {
			return Errorf("WORLD_SIZE=%d is set, but not MASTER_ADDR and MASTER_PORT; set them, or give --rdzv HOST:PORT, or unset WORLD_SIZE",
				p.Processes)
		}
		address = net.JoinHostPort(host, port)
		if err := checkAddress("MASTER_ADDR and MASTER_PORT:", address); err != nil {
			return err
		}
	}
	if isLoopback(address) || isAllLocal(env, "LOCAL_WORLD_SIZE", p.Processes) {
		p.meetHere(rdzv, address+" "+env("TORCHELASTIC_RUN_ID"))
		p.Given = address
		return nil
	}
	p.Rendezvous = parseRdzv(address)
	return nil
}

// meetHere is for processes that are all on this machine: they meet at a socket named after
// a key, which only this job's processes have in common.
func (p *Place) meetHere(rdzv, key string) {
	p.OneHost, p.Rendezvous = true, parseRdzv(rdzv)
	if rdzv == "" {
		p.Rendezvous = Rendezvous{"unix", fmt.Sprintf("%016x", hashOf(p.From+" "+key))}
	}
}

// meetAcross is for processes on several machines that have a key in common. If the user
// gave a secret, they meet at a port derived from the key, at a host that all
// have the name of. Without a secret they meet by a file in the job's folder, which all machines see.
func (p *Place) meetAcross(env func(string) string, rdzv, host, key string) error {
	p.Rendezvous = parseRdzv(rdzv)
	switch {
	case rdzv != "":
	case key == "" || env(EnvSecret) != "" && host == "":
		return Errorf("%s does not give the processes of this job an address to meet at; give --rdzv HOST:PORT, where HOST runs process 0 and PORT is free there, or --rdzv FILE, which all machines see", p.From)
	case env(EnvSecret) != "":
		p.Rendezvous = parseRdzv(net.JoinHostPort(host, strconv.Itoa(portOf(key))))
	default:
		p.Rendezvous = Rendezvous{"shared", key}
	}
	return nil
}

// portOf is a port below the range that systems assign from.
func portOf(key string) int { return 20000 + int(hashOf(key)%12000) }

func hashOf(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// isAllLocal reports whether, by a variable, all n processes are on one host.
func isAllLocal(env func(string) string, name string, n int) bool {
	return env(name) == strconv.Itoa(n)
}

// isSlurmStep reports whether srun started this process. A batch script or an interactive
// shell has variables too, but is not a process of many.
func isSlurmStep(env func(string) string) bool {
	const special = 0xfffffff0 // batch, interactive and other steps that Slurm makes itself
	id, err := strconv.ParseUint(firstSet(env, "SLURM_STEP_ID", "SLURM_STEPID"), 10, 32)
	return err == nil && id < special
}

// firstSet is the value of the first variable that is set.
func firstSet(env func(string) string, names ...string) string {
	for _, name := range names {
		if v := env(name); v != "" {
			return v
		}
	}
	return ""
}

// firstHost is the first of a Slurm node list such as n[01-03,7]-ib,login.
func firstHost(list string) string {
	var host strings.Builder
	for i := 0; i < len(list) && list[i] != ','; i++ {
		if list[i] != '[' {
			host.WriteByte(list[i])
			continue
		}
		end := strings.IndexByte(list[i:], ']')
		if end < 0 {
			return ""
		}
		inside := list[i+1 : i+end]
		if cut := strings.IndexAny(inside, ",-"); cut >= 0 {
			inside = inside[:cut]
		}
		host.WriteString(inside)
		i += end
	}
	return host.String()
}
