package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/k8s"
	"github.com/ecrec/ecrec/slurm"
	"github.com/ecrec/ecrec/train"
)

type k8sCmd struct {
	configFlags
	Image       string `required:"" help:"The container image, with ecrec in its PATH."`
	Processes   int    `required:"" placeholder:"N" help:"Number of pods that train, with one process each."`
	Spares      int    `placeholder:"N" help:"Number of additional pods that replace lost ones; needs ec.code."`
	Runs        string `required:"" placeholder:"CLAIM" help:"The PersistentVolumeClaim for results, mounted at /runs in all pods (ReadWriteMany)."`
	Data        string `placeholder:"CLAIM" help:"The PersistentVolumeClaim of the data, mounted read-only at /data in all pods."`
	CPUs        string `name:"cpus" placeholder:"QUANTITY" help:"Cores per pod, for example 16."`
	Memory      string `placeholder:"QUANTITY" help:"Memory per pod, for example 64Gi."`
	GPUs        int    `name:"gpus" placeholder:"N" help:"GPUs per pod (nvidia.com/gpu)."`
	Name        string `help:"Name of the JobSet. Default: derived from job.name."`
	Namespace   string `help:"Namespace. Default: the current one of kubectl."`
	MaxRestarts int    `default:"10" placeholder:"N" help:"Number of restarts per pod (10)."`
}

// Run prints the manifests.
func (c *k8sCmd) Run(a *app) error {
	cfg, err := c.loadPods()
	if err != nil {
		return err
	}
	if err := train.Check(cfg); err != nil {
		return err
	}
	if cfg.Collectives.Transport == "mpi" {
		return errUsage("k8s: collectives.transport = \"mpi\": pods are started without MPI; leave it at \"auto\"")
	}
	if err := c.checkPaths(a, cfg); err != nil {
		return err
	}
	text, err := os.ReadFile(c.Config)
	if err != nil {
		return err
	}
	job := k8s.Job{
		Made: slurm.Line(append([]string{"ecrec"}, a.args...)), Name: c.Name, Namespace: c.Namespace, Image: c.Image,
		Processes: c.Processes, Spares: c.Spares, CPUs: c.CPUs, Memory: c.Memory, GPUs: c.GPUs, Data: c.Data, Runs: c.Runs,
		MaxRestarts: c.MaxRestarts, Config: string(text), Sets: c.allSets(), Elastic: elastic(cfg) && c.Processes+c.Spares > 1,
	}
	if job.Name == "" {
		job.Name = k8s.NameOf(cfg.Job.Name)
	}
	job.Sets = append(job.Sets[:len(job.Sets):len(job.Sets)], "job.out="+job.Out())
	if cfg.Checkpoint.Dir != "" {
		job.Sets = append(job.Sets, "checkpoint.dir="+job.Out()+"/checkpoints")
	} else {
		fmt.Fprintf(a.errw, "ecrec: warning: %s: checkpoint.dir is not set, so a restart of all pods begins at step 1; add --set checkpoint.dir=DIR\n", c.Config)
	}
	manifest, err := job.Manifest()
	if err != nil {
		return errUsage("k8s: " + err.Error())
	}
	_, err = io.WriteString(a.out, manifest)
	return err
}

// checkPaths checks that the files of a run are on volumes of the pods.
func (c *k8sCmd) checkPaths(a *app, cfg *config.Config) error {
	files := append([]string{cfg.Model.InitFrom}, cfg.Data.Eval...)
	if !cfg.ReadsTopic() {
		files = append(files, cfg.Data.Train...)
	}
	for _, path := range files {
		onData := strings.HasPrefix(path, k8s.DataPath+"/")
		switch {
		case onData && c.Data == "": // it may be in the image, or on a volume that the user adds
			fmt.Fprintf(a.errw, "ecrec: warning: %s: no volume is mounted there; name its claim by --data, or add one to the manifest\n", path)
		case path != "" && !onData && !strings.HasPrefix(path, k8s.RunsPath+"/"):
			return errUsage(fmt.Sprintf("k8s: %s: not on a volume of the pods; put it on the claim of --data and give its path in the pods, "+
				"%s/..., in the config or by --set", path, k8s.DataPath))
		}
	}
	for key, path := range map[string]string{"store.path": cfg.Store.Path, "data.cache": cfg.Data.Cache} {
		given, err := config.Gives(c.Config, c.allSets(), key)
		if err != nil {
			return err
		}
		if given && path != "" && !strings.HasPrefix(path, k8s.RunsPath+"/") { // else it is in job.out
			return errUsage(fmt.Sprintf("k8s: %s = %q: the pods cannot write there; give a path below %s, in the config "+
				"or by --set, or leave it out", key, path, k8s.RunsPath))
		}
	}
	return nil
}

// loadPods loads the config for the number of pods.
func (c *k8sCmd) loadPods() (*config.Config, error) {
	sets := c.allSets()
	if c.Spares > 0 {
		sets = append(sets[:len(sets):len(sets)], fmt.Sprintf("elastic.spares=%d", c.Spares))
	}
	if pods := c.Processes + c.Spares; pods > 1 {
		return config.LoadAmong(pods, c.Config, sets)
	}
	return config.LoadFor(1, c.Config, sets)
}
