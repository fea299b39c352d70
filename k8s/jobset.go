package k8s

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// Mount points of the volumes in pods.
const (
	DataPath = "/data" // read only
	RunsPath = "/runs"
)

// Job is a run on Kubernetes. Quantities are in Kubernetes' format; empty ones are omitted.
type Job struct {
	Made      string // the command line that generated it, for a comment
	Name      string
	Namespace string // empty: the current one of kubectl

	Image             string
	Processes, Spares int // at least 1 and 0; spares are additional
	CPUs, Memory      string
	GPUs              int // of a pod

	Data, Runs  string // claims of volumes; Data may be empty
	MaxRestarts int    // per pod

	Config  string   // the text of the run config
	Sets    []string // key=value, for ecrec train
	Elastic bool     // the run survives the loss of pods
}

//go:embed jobset.tmpl
var manifestText string

var manifest = template.Must(template.New("jobset").Funcs(template.FuncMap{"quote": quote, "indent": indent}).Parse(manifestText))

// Manifest writes the ConfigMap and the JobSet.
func (j *Job) Manifest() (string, error) {
	if err := j.validate(); err != nil {
		return "", err
	}
	var out strings.Builder
	if err := manifest.Execute(&out, j); err != nil {
		return "", err
	}
	return out.String(), nil
}

// Pods returns the number of pods.
func (j *Job) Pods() int { return j.Processes + j.Spares }

// Out returns the path of the run's output folder in the pods.
func (j *Job) Out() string { return RunsPath + "/" + j.Name }

// Args returns the arguments of ecrec in a pod.
func (j *Job) Args() []string {
	args := []string{"train", "/etc/ecrec/run.toml", "--resume", "auto", "--rdzv", j.Out() + ".rendezvous"}
	for _, s := range j.Sets {
		args = append(args, "--set", s)
	}
	if j.Spares > 0 {
		args = append(args, "--set", "elastic.spares="+strconv.Itoa(j.Spares))
	}
	return args
}

// Resources returns a pod's limits and requests.
func (j *Job) Resources() (all []Quantity) {
	if j.CPUs != "" {
		all = append(all, Quantity{"cpu", j.CPUs})
	}
	if j.Memory != "" {
		all = append(all, Quantity{"memory", j.Memory})
	}
	if j.GPUs > 0 {
		all = append(all, Quantity{"nvidia.com/gpu", strconv.Itoa(j.GPUs)})
	}
	return all
}

// Quantity is an amount of a resource.
type Quantity struct{ Name, Amount string }

const (
	maxName      = 48   // a host's label has 63 characters, including the suffixes of Job and pod
	maxProcesses = 4096 // the limit of package launcher
)

// yamlBreaks lists the characters that end a line in YAML 1.1, in addition to newline. They do not
// end a line in TOML. So text after one in a comment of the config would become a part of the
// manifest.
const yamlBreaks = "\r\u0085\u2028\u2029"

var (
	nameForm     = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	quantityForm = regexp.MustCompile(`^([0-9]+|[0-9]*\.[0-9]+)([mkMGTPE]|[KMGTPE]i)?$`)
)

// NameOf turns any text into a name for Kubernetes.
func NameOf(text string) string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(text), "-"), "-")
	if name == "" || name[0] < 'a' {
		name = "ecrec-" + name
	}
	return strings.TrimRight(name[:min(len(name), maxName)], "-")
}

// validate returns an error for an invalid job, which names the flag of ecrec k8s.
func (j *Job) validate() error {
	switch {
	case !nameForm.MatchString(j.Name) || len(j.Name) > maxName:
		return fmt.Errorf("--name %q: want up to %d lower-case letters, digits and hyphens, a letter first", j.Name, maxName)
	case j.Image == "":
		return fmt.Errorf("--image: name the container image that holds ecrec")
	case j.Runs == "":
		return fmt.Errorf("--runs: name the claim of a volume that all pods can write (ReadWriteMany)")
	case j.Processes < 1 || j.Processes > maxProcesses:
		return fmt.Errorf("--processes %d: give 1 to %d", j.Processes, maxProcesses)
	case j.Spares < 0 || j.Pods() > maxProcesses:
		return fmt.Errorf("--spares %d: give 0 or more, and at most %d processes in all", j.Spares, maxProcesses)
	case j.Spares > 0 && !j.Elastic:
		return fmt.Errorf("--spares %d: a spare can replace a lost pod only with erasure coding; add --set ec.code=xor, or remove the flag",
			j.Spares)
	case j.GPUs < 0:
		return fmt.Errorf("--gpus %d: give 0 or more", j.GPUs)
	case j.MaxRestarts < 0:
		return fmt.Errorf("--max-restarts %d: give 0 or more", j.MaxRestarts)
	}
	if strings.ContainsAny(j.Made, "\n"+yamlBreaks) {
		return fmt.Errorf("values must not contain line ends: %q", j.Made)
	}
	if i := strings.IndexAny(strings.ReplaceAll(j.Config, "\r\n", "\n"), yamlBreaks); i >= 0 {
		return fmt.Errorf("the config has a character at byte %d that ends a line in YAML (one of %+q); remove it", i+1, yamlBreaks)
	}
	for _, q := range []struct{ flag, text string }{{"--cpus", j.CPUs}, {"--memory", j.Memory}} {
		if q.text != "" && !quantityForm.MatchString(q.text) {
			return fmt.Errorf("%s %q: want a quantity in Kubernetes' format: 4, 500m, 64Gi", q.flag, q.text)
		}
	}
	return nil
}

// quote returns a string as JSON, which is also YAML.
func quote(s string) (string, error) {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// indent returns a text as a YAML block whose lines are indented by four.
func indent(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}
