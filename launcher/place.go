package launcher

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"strings"
)

// maxProcesses bounds a job; the whole world fits in one message.
const maxProcesses = 4096

// ErrPlace is what an error is that comes from how a process was started:
// nothing has been done.
var ErrPlace = errors.New("the process's place in the job is not clear")

type placeError string

func (e placeError) Error() string        { return string(e) }
func (e placeError) Is(target error) bool { return target == ErrPlace }

func placeErrorf(format string, args ...any) error {
	return placeError(fmt.Sprintf(format, args...))
}

// Place is which process of how many this is, and where the others are met.
type Place struct {
	Process, Processes int
	From               string // what says so, for messages
	// Launch says that no environment gives a place: this process is to start
	// Processes supervisors.
	Launch bool
	// Started says that a launcher which keeps running, mpirun say, started this
	// process: should it be gone, the job ends.
	Started bool
	// OneHost says that all processes are known to be on one machine.
	OneHost bool
	Meet    Meeting
}

// Alone reports whether the job is this one process.
func (p Place) Alone() bool { return p.Processes == 1 }

// Meeting is where supervisors meet.
type Meeting struct {
	// Network is "tcp"; "unix": a socket in Linux's abstract name space, where
	// the kernel vouches for the peer's user; "pmi": the launcher's key-value
	// space says where; "file": a file does, which brings the secret too; or
	// "shared": such a file in the job's folder, named by a key.
	Network string
	Address string // host:port, a name, the number of a file descriptor, a path, or a key
}

// The variables that say where a supervisor that the launcher started stands.
const (
	envProcess   = "ECREC_PROCESS"
	envProcesses = "ECREC_PROCESSES"
	envRdzv      = "ECREC_RDZV"
	envSecret    = "ECREC_SECRET" // also set by people, where nothing else brings a secret to all hosts
)

// environment is one way in which a process is told its place.
type environment struct {
	name          string
	process, size string // variables; the first is asked only if the second is set
	started       bool   // Place.Started: not so where people set the variables by hand
	// meet completes the place: OneHost, and Meet unless --rdzv says where.
	meet func(env func(string) string, p *Place, rdzv string) error
}

const fromOpenMPI = "Open MPI"

// environments are asked in this order: mpirun inside a batch job leaks Slurm's
// variables for the job's script, so Slurm's come after.
var environments = []environment{
	{"ecrec's own launcher", envProcess, envProcesses, true, meetLaunched},
	{fromOpenMPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true, meetOpenMPI},
	{"PMI", "PMI_RANK", "PMI_SIZE", true, meetPMI},
	{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", true, meetSlurm},
	{"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", false, meetTorch},
}

// Detect tells this process's place from its environment, the value of --np (0:
// not given) and that of --rdzv (host:port or a file, which overrides what the
// environment says). Its errors are ErrPlace.
func Detect(env func(string) string, np int, rdzv string) (Place, error) {
	if np < 0 || np > maxProcesses {
		return Place{}, placeErrorf("--np %d: give a number of processes between 1 and %d", np, maxProcesses)
	}
	if err := checkRdzv(rdzv); err != nil {
		return Place{}, err
	}
	for _, e := range environments {
		if env(e.size) == "" || e.name == "Slurm" && !inSlurmStep(env) {
			continue
		}
		p, err := e.place(env)
		if err != nil {
			return Place{}, err
		}
		if e.name == "Slurm" && p.Processes == 1 && np > 1 {
			break // an interactive shell is a step of one task; processes may be started in it
		}
		if np != 0 && np != p.Processes && env(envControl) == "" { // our launcher started spares too
			return Place{}, placeErrorf("--np %d disagrees with the environment: %s=%s (%s) says %d; leave --np out, or unset %s to start processes on this machine only",
				np, e.size, env(e.size), e.name, p.Processes, e.size)
		}
		if p.Alone() {
			return p, nil
		}
		return p, e.meet(env, &p, rdzv)
	}
	if rdzv != "" && np == 0 {
		return Place{}, placeErrorf("--rdzv %s: nothing says which process of how many this is; give --np P to start P here, or start it with mpirun, srun or torchrun", rdzv)
	}
	if isFile(rdzv) {
		return Place{}, placeErrorf("--rdzv %s: the processes of --np meet on this machine; leave it out", rdzv)
	}
	return Place{Processes: max(np, 1), From: "--np", Launch: np > 1, OneHost: true, Meet: meeting(rdzv)}, nil
}

// place reads the numbers.
func (e *environment) place(env func(string) string) (Place, error) {
	size, err := strconv.Atoi(env(e.size))
	if err != nil || size < 1 || size > maxProcesses {
		return Place{}, placeErrorf("%s=%s: want a number of processes between 1 and %d", e.size, env(e.size), maxProcesses)
	}
	process, err := strconv.Atoi(env(e.process))
	if err != nil || process < 0 || process >= size {
		return Place{}, placeErrorf("%s=%s: want this process's number, 0 to %d, as %s=%d is set; unset both if no launcher set them",
			e.process, env(e.process), size-1, e.size, size)
	}
	return Place{Process: process, Processes: size, From: e.name, Started: e.started}, nil
}

// meeting is where --rdzv says, which has been checked.
func meeting(rdzv string) Meeting {
	switch {
	case rdzv == "":
		return Meeting{}
	case isFile(rdzv):
		m, _ := fileMeeting(rdzv) // checkRdzv has had its error
		return m
	}
	return Meeting{"tcp", rdzv}
}

func checkRdzv(rdzv string) (err error) {
	switch {
	case isFile(rdzv):
		_, err = fileMeeting(rdzv)
	case rdzv != "":
		err = checkAddress("--rdzv", rdzv)
	}
	return err
}

func checkAddress(what, address string) error {
	host, port, err := net.SplitHostPort(address)
	n, numErr := strconv.Atoi(port)
	if err != nil || numErr != nil || host == "" || n < 1 || n > 65535 {
		return placeErrorf("%s %s: want HOST:PORT, as in node1:29400", what, address)
	}
	return nil
}

// isLoopback reports whether an address's host is this machine by its name.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// meetLaunched is for a supervisor that the launcher started.
func meetLaunched(env func(string) string, p *Place, _ string) error {
	address := env(envRdzv)
	if err := checkAddress(envRdzv, address); err != nil {
		return err
	}
	p.OneHost, p.Meet = isLoopback(address), meeting(address)
	return nil
}

// oneHost says that all processes are here, and lets them meet under a name made
// of what only this job's processes have in common.
func (p *Place) oneHost(rdzv, key string) {
	p.OneHost, p.Meet = true, meeting(rdzv)
	if rdzv == "" {
		p.Meet = Meeting{"unix", fmt.Sprintf("%016x", hash(p.From+" "+key))}
	}
}

// otherHosts lets processes meet by what they have in common, a key: where they have been
// given a secret, at a port made of it, at a host that all know; else by a file in the job's
// folder, which all see too.
func (p *Place) otherHosts(env func(string) string, rdzv, host, key string) error {
	p.Meet = meeting(rdzv)
	switch {
	case rdzv != "":
	case key == "" || env(envSecret) != "" && host == "":
		return placeErrorf("%s does not say where the processes of this job can meet; give --rdzv HOST:PORT, where HOST runs process 0 and PORT is free there, or --rdzv FILE, which all machines see", p.From)
	case env(envSecret) != "":
		p.Meet = meeting(net.JoinHostPort(host, strconv.Itoa(portOf(key))))
	default:
		p.Meet = Meeting{"shared", key}
	}
	return nil
}

// portOf is a port below those that systems hand out by themselves.
func portOf(key string) int { return 20000 + int(hash(key)%12000) }

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// allLocal reports whether a variable says that all n processes are on one host.
func allLocal(env func(string) string, name string, n int) bool {
	return env(name) == strconv.Itoa(n)
}

// meetOpenMPI: all processes have the address of one mpirun and one name space.
func meetOpenMPI(env func(string) string, p *Place, rdzv string) error {
	key := env("PMIX_NAMESPACE") + " " + env("OMPI_MCA_orte_hnp_uri")
	if allLocal(env, "OMPI_COMM_WORLD_LOCAL_SIZE", p.Processes) && (rdzv != "" || key != " ") {
		p.oneHost(rdzv, key)
		return nil
	}
	// 1234.0;tcp://10.0.0.5,192.168.1.5:40001: mpirun runs where process 0 does,
	// unless a host file says otherwise; then process 0 cannot listen there, and
	// says so.
	_, uri, _ := strings.Cut(env("OMPI_MCA_orte_hnp_uri"), "tcp://")
	host := uri[:max(0, strings.IndexAny(uri, ",:"))]
	return p.otherHosts(env, rdzv, host, key)
}

// meetPMI: MPICH's mpirun and srun --mpi=pmi2 keep a key-value space.
func meetPMI(env func(string) string, p *Place, rdzv string) error {
	p.OneHost, p.Meet = allLocal(env, "MPI_LOCALNRANKS", p.Processes) || env("SLURM_STEP_NUM_NODES") == "1", meeting(rdzv)
	if rdzv != "" {
		return nil
	}
	fd := env("PMI_FD")
	if n, err := strconv.Atoi(fd); err != nil || n < 0 {
		return p.otherHosts(env, rdzv, "", "")
	}
	p.Meet = Meeting{"pmi", fd}
	return nil
}

// inSlurmStep reports whether srun started this process: the variables of a
// batch script or an interactive shell are not those of a process of many.
func inSlurmStep(env func(string) string) bool {
	const special = 0xfffffff0 // batch, interactive and other steps that Slurm makes itself
	id, err := strconv.ParseUint(first(env, "SLURM_STEP_ID", "SLURM_STEPID"), 10, 32)
	return err == nil && id < special
}

func first(env func(string) string, names ...string) string {
	for _, name := range names {
		if v := env(name); v != "" {
			return v
		}
	}
	return ""
}

// meetSlurm: process 0 runs on the first host of the step.
func meetSlurm(env func(string) string, p *Place, rdzv string) error {
	key := strings.Join([]string{env("SLURM_CLUSTER_NAME"), first(env, "SLURM_JOB_ID", "SLURM_JOBID"),
		first(env, "SLURM_STEP_ID", "SLURM_STEPID"), env("SLURM_RESTART_COUNT")}, ".")
	if env("SLURM_STEP_NUM_NODES") == "1" {
		p.oneHost(rdzv, key)
		return nil
	}
	return p.otherHosts(env, rdzv, firstHost(env("SLURM_STEP_NODELIST")), key)
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

// meetTorch: the variables that torchrun and its like set.
func meetTorch(env func(string) string, p *Place, rdzv string) error {
	address := rdzv
	if address == "" {
		host, port := env("MASTER_ADDR"), env("MASTER_PORT")
		if host == "" || port == "" {
			return placeErrorf("WORLD_SIZE=%d is set, but not MASTER_ADDR and MASTER_PORT; set them, or give --rdzv HOST:PORT, or unset WORLD_SIZE", p.Processes)
		}
		address = net.JoinHostPort(host, port)
		if err := checkAddress("MASTER_ADDR and MASTER_PORT:", address); err != nil {
			return err
		}
	}
	if isLoopback(address) || allLocal(env, "LOCAL_WORLD_SIZE", p.Processes) {
		p.oneHost(rdzv, address+" "+env("TORCHELASTIC_RUN_ID"))
		return nil
	}
	p.Meet = meeting(address)
	return nil
}
