package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed openmpi/collectives.c
var openMPISource []byte

// openMPILimit is the time limit of one run of Open MPI.
const openMPILimit = 10 * time.Minute

// openMPI is our C program that times Open MPI's collectives.
type openMPI struct {
	dir     string // of the program
	version string
	ranks   int
}

// newOpenMPI builds the program. It returns an error if there is no Open MPI to measure.
func newOpenMPI(ranks int) (_ *openMPI, err error) {
	for _, tool := range []string{"mpirun", "mpicc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("there is no %s in PATH", tool)
		}
	}
	text, err := runMPI("mpirun", "--version")
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(text, "\n")
	_, version, ok := strings.Cut(first, "(Open MPI) ")
	if !ok {
		return nil, errors.New("mpirun is not Open MPI's")
	}
	m := &openMPI{version: "Open MPI " + strings.TrimSpace(version), ranks: ranks}
	if m.dir, err = os.MkdirTemp("", "ecrec-bench"); err != nil {
		return nil, err
	}
	source := filepath.Join(m.dir, "collectives.c")
	if err = os.WriteFile(source, openMPISource, 0o644); err == nil {
		_, err = runMPI("mpicc", "-O2", "-o", m.program(), source)
	}
	if err != nil {
		m.removeFolder()
		return nil, err
	}
	return m, nil
}

func (m *openMPI) program() string { return filepath.Join(m.dir, "collectives") }

func (m *openMPI) removeFolder() { os.RemoveAll(m.dir) }

// timeCases returns the microseconds of each case.
func (m *openMPI) timeCases(cases []collectiveCase) ([]float64, error) {
	args := []string{"-np", strconv.Itoa(m.ranks), "--oversubscribe", m.program(), strconv.Itoa(collectiveRounds),
		strconv.Itoa(collectiveWarmup)}
	for _, c := range cases {
		args = append(args, c.name, strconv.Itoa(c.bytes), strconv.Itoa(c.iterations()))
	}
	text, err := runMPI("mpirun", args...)
	if err != nil {
		return nil, err
	}
	var us []float64
	for _, word := range strings.Fields(text) {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil || x <= 0 {
			return nil, fmt.Errorf("mpirun printed %q where microseconds were due", word)
		}
		us = append(us, x)
	}
	if len(us) != len(cases) {
		return nil, fmt.Errorf("mpirun printed %d figures for %d cases", len(us), len(cases))
	}
	return us, nil
}

// runMPI returns the output of a command. Its error is one line.
func runMPI(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openMPILimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = openMPIVariables(os.Environ(), os.Geteuid() == 0)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		for line := range strings.Lines(errs.String()) {
			if line = strings.Trim(line, "- \n"); line != "" {
				return "", fmt.Errorf("%s: %w: %s", name, err, line)
			}
		}
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}

// openMPIVariables returns the environment of a separate run on this host: without the variables of
// an mpirun that started this process, with loopback only, and with permission to run as root if
// this process does.
func openMPIVariables(environ []string, root bool) []string {
	vars := []string{"OMPI_MCA_oob_tcp_if_include=lo", "OMPI_MCA_btl_tcp_if_include=lo"}
	if root {
		vars = append(vars, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	}
	for _, v := range environ {
		if !strings.HasPrefix(v, "OMPI_") && !strings.HasPrefix(v, "PMIX_") && !strings.HasPrefix(v, "PMI_") {
			vars = append(vars, v)
		}
	}
	return vars
}
