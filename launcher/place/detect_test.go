package place

import (
	"errors"
	"strings"
	"testing"
)

// variables is an environment: "NAME=value NAME=value".
func variables(words string) func(string) string {
	m := map[string]string{}
	for _, w := range strings.Fields(words) {
		name, value, _ := strings.Cut(w, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

func TestDetect(t *testing.T) {
	const (
		ompi  = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=99 OMPI_MCA_orte_hnp_uri=99.0;tcp://10.0.0.5,192.168.1.5:40001 "
		ompi2 = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=99 OMPI_MCA_orte_hnp_uri=99.0;tcp://10.0.0.5,192.168.1.5:40001 "
		slurm = "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0 SLURM_JOB_ID=7 SLURM_STEP_NUM_NODES=4 SLURM_STEP_NODELIST=n[0-3] "
		batch = "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=8 SLURM_NTASKS=8 SLURM_STEP_ID=4294967291 SLURM_JOB_ID=7 "
		known = "ECREC_SECRET=0123456789abcdef "
		torch = "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a.example MASTER_PORT=29500 "
	)
	for _, c := range []struct {
		name, env string
		np        int
		rdzv      string
		want      Place // without From and Started
		from      string
	}{
		{name: "nothing", want: Place{Processes: 1, OneHost: true}, from: "--np"},
		{name: "np 1", np: 1, want: Place{Processes: 1, OneHost: true}, from: "--np"},
		{name: "np", np: 4, want: Place{Processes: 4, Launch: true, OneHost: true}, from: "--np"},
		{name: "np with a port", np: 4, rdzv: "127.0.0.1:4000",
			want: Place{Processes: 4, Launch: true, OneHost: true, Rendezvous: Rendezvous{"tcp", "127.0.0.1:4000"}}, from: "--np"},
		{name: "launched", env: "ECREC_PROCESS=1 ECREC_PROCESSES=2 ECREC_RDZV=127.0.0.1:99 " + ompi, np: 2,
			want: Place{Process: 1, Processes: 2, OneHost: true, Rendezvous: Rendezvous{"tcp", "127.0.0.1:99"}}, from: "ecrec's own launcher"},

		{name: "Open MPI on one host", env: ompi, want: Place{Process: 2, Processes: 4, OneHost: true,
			Rendezvous: Rendezvous{"unix", "*"}}, from: "Open MPI"},
		{name: "Open MPI, --np agrees", env: ompi, np: 4, want: Place{Process: 2, Processes: 4, OneHost: true,
			Rendezvous: Rendezvous{"unix", "*"}}, from: "Open MPI"},
		{name: "Open MPI inside a batch job", env: batch + ompi,
			want: Place{Process: 2, Processes: 4, OneHost: true, Rendezvous: Rendezvous{"unix", "*"}}, from: "Open MPI"},
		{name: "Open MPI before a leaked PMI", env: "PMI_RANK=0 PMI_SIZE=1 " + ompi,
			want: Place{Process: 2, Processes: 4, OneHost: true, Rendezvous: Rendezvous{"unix", "*"}}, from: "Open MPI"},
		{name: "Open MPI on hosts", env: ompi2, want: Place{Process: 2, Processes: 4,
			Rendezvous: Rendezvous{"shared", "99 99.0;tcp://10.0.0.5,192.168.1.5:40001"}}, from: "Open MPI"},
		{name: "Open MPI on hosts, a secret", env: known + ompi2,
			want: Place{Process: 2, Processes: 4, Rendezvous: Rendezvous{"tcp", "10.0.0.5:*"}}, from: "Open MPI"},
		{name: "Open MPI on hosts, a file", env: known + ompi2, rdzv: "/shared/here",
			want: Place{Process: 2, Processes: 4, Rendezvous: Rendezvous{"file", "/shared/here"}}, from: "Open MPI"},
		{name: "Open MPI on hosts, --rdzv", env: ompi2, rdzv: "b:5",
			want: Place{Process: 2, Processes: 4, Rendezvous: Rendezvous{"tcp", "b:5"}}, from: "Open MPI"},
		{name: "Open MPI, one process", env: "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", want: Place{Processes: 1}, from: "Open MPI"},

		{name: "MPICH", env: "PMI_RANK=1 PMI_SIZE=2 PMI_FD=9 MPI_LOCALNRANKS=2",
			want: Place{Process: 1, Processes: 2, OneHost: true, Rendezvous: Rendezvous{"pmi", "9"}}, from: "PMI"},
		{name: "MPICH on hosts", env: "PMI_RANK=1 PMI_SIZE=2 PMI_FD=9 MPI_LOCALNRANKS=1",
			want: Place{Process: 1, Processes: 2, Rendezvous: Rendezvous{"pmi", "9"}}, from: "PMI"},
		{name: "MPICH, --rdzv", env: "PMI_RANK=1 PMI_SIZE=2 PMI_FD=9", rdzv: "a:1",
			want: Place{Process: 1, Processes: 2, Rendezvous: Rendezvous{"tcp", "a:1"}}, from: "PMI"},

		{name: "Slurm", env: slurm, want: Place{Process: 3, Processes: 4, Rendezvous: Rendezvous{"shared", ".7.0."}}, from: "Slurm"},
		{name: "Slurm, requeued", env: slurm + "SLURM_RESTART_COUNT=2",
			want: Place{Process: 3, Processes: 4, Rendezvous: Rendezvous{"shared", ".7.0.2"}}, from: "Slurm"},
		{name: "Slurm, a secret", env: known + slurm, want: Place{Process: 3, Processes: 4,
			Rendezvous: Rendezvous{"tcp", "n0:*"}}, from: "Slurm"},
		{name: "Slurm on one node", env: strings.Replace(slurm, "NODES=4", "NODES=1", 1),
			want: Place{Process: 3, Processes: 4, OneHost: true, Rendezvous: Rendezvous{"unix", "*"}}, from: "Slurm"},
		{name: "a batch script is no step", env: batch, np: 2, want: Place{Processes: 2, Launch: true, OneHost: true}, from: "--np"},
		{name: "a shell that srun started", env: "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0", np: 2,
			want: Place{Processes: 2, Launch: true, OneHost: true}, from: "--np"},

		{name: "torchrun's", env: torch, want: Place{Process: 1, Processes: 2,
			Rendezvous: Rendezvous{"tcp", "a.example:29500"}}, from: "RANK and WORLD_SIZE"},
		{name: "torchrun's on one host", env: torch + "LOCAL_WORLD_SIZE=2",
			want: Place{Process: 1, Processes: 2, OneHost: true, Rendezvous: Rendezvous{"unix", "*"}, Given: "a.example:29500"},
			from: "RANK and WORLD_SIZE"},
		{name: "torchrun's, loopback", env: "RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=1",
			want: Place{Process: 1, Processes: 2, OneHost: true, Rendezvous: Rendezvous{"unix", "*"}, Given: "localhost:1"},
			from: "RANK and WORLD_SIZE"},
		{name: "torchrun's, a file", env: "RANK=1 WORLD_SIZE=2", rdzv: "file:///s/r",
			want: Place{Process: 1, Processes: 2, Rendezvous: Rendezvous{"file", "/s/r"}}, from: "RANK and WORLD_SIZE"},
		{name: "torchrun's, --rdzv", env: "RANK=1 WORLD_SIZE=2", rdzv: "c:2",
			want: Place{Process: 1, Processes: 2, Rendezvous: Rendezvous{"tcp", "c:2"}}, from: "RANK and WORLD_SIZE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Detect(variables(c.env), c.np, c.rdzv)
			if err != nil {
				t.Fatal(err)
			}
			c.want.From, c.want.Started = c.from, c.from != "--np" && c.from != "RANK and WORLD_SIZE"
			if want := c.want.Rendezvous.Address; strings.HasSuffix(want, "*") &&
				strings.HasPrefix(got.Rendezvous.Address, strings.TrimSuffix(want, "*")) && len(got.Rendezvous.Address) > len(want) {
				c.want.Rendezvous.Address = got.Rendezvous.Address // made of a hash
			}
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestDetectRefuses(t *testing.T) {
	const known = "ECREC_SECRET=0123456789abcdef "
	for _, c := range []struct {
		name, env string
		np        int
		rdzv      string
		says      []string
	}{
		{name: "np below 0", np: -1, says: []string{"--np -1"}},
		{name: "np too large", np: 5000, says: []string{"--np 5000", "4096"}},
		{name: "np disagrees", env: "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", np: 4,
			says: []string{"--np 4", "OMPI_COMM_WORLD_SIZE=2", "Open MPI"}},
		{name: "np disagrees with one process", env: "PMI_RANK=0 PMI_SIZE=1", np: 2, says: []string{"--np 2", "PMI_SIZE=1"}},
		{name: "np 1 disagrees", env: "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_ID=1", np: 1,
			says: []string{"--np 1", "SLURM_STEP_NUM_TASKS=3"}},
		{name: "process outside", env: "PMI_RANK=2 PMI_SIZE=2", says: []string{"PMI_RANK=2", "0 to 1"}},
		{name: "no process", env: "WORLD_SIZE=2", says: []string{"RANK=", "WORLD_SIZE=2"}},
		{name: "no number", env: "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=two", says: []string{"OMPI_COMM_WORLD_SIZE=two"}},
		{name: "no place to meet", env: "RANK=0 WORLD_SIZE=2", says: []string{"MASTER_ADDR", "--rdzv"}},
		{name: "no port", env: "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=x", says: []string{"MASTER_ADDR", "a:x"}},
		{name: "np and a file", np: 2, rdzv: "./here", says: []string{"--rdzv ./here", "leave it out"}},
		{name: "no file", env: "RANK=0 WORLD_SIZE=2", rdzv: "a/", says: []string{"--rdzv a/", "HOST:PORT", "file"}},
		{name: "no uri", env: known + "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 PMIX_NAMESPACE=5",
			says: []string{"Open MPI", "--rdzv HOST:PORT"}},
		{name: "no PMI_FD", env: "PMI_RANK=0 PMI_SIZE=2", says: []string{"PMI", "--rdzv HOST:PORT"}},
		{name: "bad --rdzv", rdzv: "nohost", np: 2, says: []string{"--rdzv nohost", "HOST:PORT"}},
		{name: "--rdzv alone", rdzv: "a:1", says: []string{"--rdzv a:1", "--np P"}},
		{name: "--rdzv without a port", rdzv: "a:", np: 2, says: []string{"--rdzv a:"}},
		{name: "--rdzv without a host", rdzv: ":5000", np: 2, says: []string{"--rdzv :5000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Detect(variables(c.env), c.np, c.rdzv)
			if !errors.Is(err, ErrPlace) {
				t.Fatalf("%+v, error %v", got, err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q lacks %q", err, s)
				}
			}
		})
	}
}

// All processes of a job find the same rendezvous; those of another job find another.
func TestRendezvousIsTheJobs(t *testing.T) {
	meet := func(env string) Rendezvous {
		t.Helper()
		p, err := Detect(variables(env), 0, "")
		if err != nil {
			t.Fatal(err)
		}
		return p.Rendezvous
	}
	for _, job := range []string{
		"OMPI_COMM_WORLD_RANK=%R OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=%J",
		"OMPI_COMM_WORLD_RANK=%R OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=1 PMIX_NAMESPACE=%J OMPI_MCA_orte_hnp_uri=%J.0;tcp://10.0.0.5:1",
		"SLURM_PROCID=%R SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0 SLURM_JOB_ID=%J SLURM_STEP_NUM_NODES=1",
		"SLURM_PROCID=%R SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=%J SLURM_JOB_ID=5 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=a,b",
	} {
		at := func(rank, id string) Rendezvous {
			return meet(strings.NewReplacer("%R", rank, "%J", id).Replace(job))
		}
		if a, b := at("0", "11"), at("3", "11"); a != b {
			t.Errorf("%s: process 0 goes to %v, process 3 to %v", job, a, b)
		}
		if a, b := at("0", "11"), at("0", "12"); a == b {
			t.Errorf("%s: two jobs meet at %v", job, a)
		}
	}
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{
		"": "", "a": "a", "a,b": "a", "n[0-3]": "n0", "n[01-03,7],x": "n01", "n[5,7]": "n5", "r[2-3]n[4-5]-ib,z": "r2n4-ib", "n[0-3": "",
	} {
		if got := firstHost(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}
