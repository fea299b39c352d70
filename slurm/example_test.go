package slurm_test

import (
	"fmt"
	"strings"

	"github.com/ecrec/ecrec/slurm"
)

// A hostlist is expanded to its hosts, and compressed again.
func ExampleExpand() {
	hosts, err := slurm.Expand("n[01-03,7],login1")
	fmt.Println(hosts, err)
	fmt.Println(slurm.Compress(hosts))
	// Output:
	// [n01 n02 n03 n7 login1] <nil>
	// n[01-03,7],login1
}

// The batch script of a run on four nodes and a spare one.
func ExampleJob() {
	j := slurm.Job{Name: "kaggle", Nodes: 4, SpareNodes: 1, TasksPerNode: 1, Time: "24:00:00", SignalBefore: 120,
		Logs: ".", Ecrec: "ecrec", Config: "run.toml", Sets: []string{"ec.code=xor"}, Elastic: true}
	script, err := j.Script()
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "#SBATCH") {
			fmt.Print(line)
		}
	}
	fmt.Println(strings.Join(j.Train(), " "))
	// Output:
	// #SBATCH --job-name=kaggle
	// #SBATCH --nodes=5
	// #SBATCH --ntasks-per-node=1
	// #SBATCH --time=24:00:00
	// #SBATCH --output=%x-%j.out
	// #SBATCH --open-mode=append
	// #SBATCH --signal=B:USR1@120
	// #SBATCH --requeue
	// #SBATCH --no-kill
	// ecrec train run.toml --resume auto --set ec.code=xor --set elastic.spares=1
}
