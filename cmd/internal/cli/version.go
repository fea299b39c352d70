package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ecrec/ecrec/cmd/internal/doctor"
	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/mpi"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// versionReport is the output of ecrec version. Names of absent libraries are empty.
type versionReport struct {
	buildinfo.Info
	LinkedMPI string       `json:"linked_mpi"` // the library of builds with the tag mpi
	CPU       string       `json:"cpu"`
	Software  []versionRow `json:"software"`
}

// versionRow is a kernel set, library or program of this machine.
type versionRow struct {
	Name  string `json:"name"`
	Found bool   `json:"found"`
	Value string `json:"value"`
}

// Run prints the version.
func (c *versionCmd) Run(a *app) error {
	r := versionReport{Info: buildinfo.Read(), LinkedMPI: mpi.Library(), CPU: machine.CPU()}
	for _, check := range doctor.Software() {
		r.Software = append(r.Software, versionRow{check.Name, check.Status == doctor.OK, check.Value})
	}
	if c.JSON {
		e := json.NewEncoder(a.out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.writeText(a.out)
}

func (r versionReport) writeText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	commit := r.Commit
	switch {
	case commit == "":
		commit = "unknown"
	case r.Modified:
		commit += ", modified"
	}
	build := r.Toolchain() + ", without cgo"
	if r.CGO {
		build = r.Toolchain() + ", with cgo"
	}
	if r.Tags != "" {
		build += ", tags " + r.Tags
	}
	linked := "none"
	if r.LinkedMPI != "" {
		linked, _, _ = strings.Cut(r.LinkedMPI, "\n")
	}
	fmt.Fprintf(w, "ecrec %s\n  commit\t%s\n  build\t%s\n  linked MPI\t%s\n  cpu\t%s\n", r.Version, commit, build, linked, r.CPU)
	for _, row := range r.Software {
		fmt.Fprintf(w, "  %s\t%s\n", row.Name, row.Value)
	}
	return w.Flush()
}
