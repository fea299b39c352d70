package k8s

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "update the manifests of testdata")

func elasticJob() Job {
	return Job{
		Made: "ecrec k8s run.toml", Name: "criteo-dlrm", Namespace: "ads", Image: "registry/ecrec:0.5.0", Processes: 8, Spares: 1,
		CPUs: "16", Memory: "64Gi", GPUs: 1, Data: "criteo", Runs: "runs", MaxRestarts: 10, Elastic: true,
		Config: "# \"quotes\", 'quotes' and: colons\n[job]\n  ranks = 8\n\tname = \"a: b # c\"\n",
		Sets:   []string{"ec.code=xor", `data.train=["/data/a b.bin"]`},
	}
}

func smallJob() Job {
	return Job{Made: "ecrec k8s run.toml", Name: "one", Image: "ecrec", Processes: 1, Runs: "runs", Config: "\n\n  [job]\r\nranks = 1"}
}

// TestManifests compares manifests with the files that tools/k8scheck validates.
func TestManifests(t *testing.T) {
	for name, job := range map[string]Job{"elastic": elasticJob(), "small": smallJob()} {
		got, err := job.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name+".yaml")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: go test ./k8s -update updates it, if this is right:\n%s", file, got)
		}
	}
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	for _, c := range []struct {
		change func(*Job)
		want   string
	}{
		{func(j *Job) { j.Name = "Criteo" }, "--name"},
		{func(j *Job) { j.Name = strings.Repeat("a", 49) }, "--name"},
		{func(j *Job) { j.Image = "" }, "--image"},
		{func(j *Job) { j.Runs = "" }, "--runs"},
		{func(j *Job) { j.Processes = 0 }, "--processes"},
		{func(j *Job) { j.Processes = 5000 }, "--processes"},
		{func(j *Job) { j.Spares = -1 }, "--spares"},
		{func(j *Job) { j.Elastic = false }, "ec.code=xor"},
		{func(j *Job) { j.GPUs = -1 }, "--gpus"},
		{func(j *Job) { j.CPUs = "four" }, "--cpus"},
		{func(j *Job) { j.Memory = "64 GB" }, "--memory"},
		{func(j *Job) { j.MaxRestarts = -1 }, "--max-restarts"},
		{func(j *Job) { j.Made = "a\nkind: Pod" }, "line end"},
		{func(j *Job) { j.Made = "a\u0085kind: Pod" }, "line end"},
		{func(j *Job) { j.Made = "a\u2028kind: Pod" }, "line end"},
		{func(j *Job) { j.Config = "[job]\r\n#\u0085data: {}\n" }, "byte 8"},
		{func(j *Job) { j.Config = "[job] #\rdata: {}\n" }, "byte 8"},
	} {
		job := elasticJob()
		c.change(&job)
		if text, err := job.Manifest(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error with %q, got %v and %d bytes", c.want, err, len(text))
		}
	}
}

func TestNameOf(t *testing.T) {
	for text, want := range map[string]string{
		"criteo-dlrm": "criteo-dlrm", "Criteo DLRM_2": "criteo-dlrm-2", "7 days": "ecrec-7-days", "": "ecrec", "--": "ecrec",
		strings.Repeat("ab-", 20): strings.TrimRight(strings.Repeat("ab-", 16), "-"),
	} {
		if got := NameOf(text); got != want || !nameForm.MatchString(got) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
