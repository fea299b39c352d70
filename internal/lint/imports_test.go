package lint

import (
	"strconv"
	"strings"
	"testing"
)

// mayImport is the layering of DESIGN.md section 7, low to high: a package may
// import those named and nothing else of this module.
var mayImport = []struct{ pkg, allowed, why string }{
	{"internal/rng", "", "randomness is a pure function"},
	{"internal/f32", "", "arithmetic is pure functions"},
	{"internal/env", "", "everything that blocks stands on it"},
	{"internal/invariant", "", "a constant of the build"},
	{"internal/digest", "", "a hash knows nothing of what it hashes"},
	{"internal/auc", "", "a statistic knows nothing of who scores"},
	{"internal/placement", "", "placement is arithmetic"},
	{"internal/machine", "", "what the machine has is read, not chosen, here"},
	{"internal/openblas", "", "an edge to a foreign library"},
	{"internal/cuda", "", "an edge to foreign libraries: it knows no kernel"},
	{"internal/cuda/standin", "internal/cuda", "it stands in for foreign libraries, and is given the kernels"},
	{"internal/mpi", "", "an edge to a foreign library"},
	{"internal/arena", "", "memory is below everything"},
	{"internal/blockcopy", "", "bytes are below everything"},
	{"internal/atomicfile", "", "files are below everything"},
	{"internal/directio", "internal/env", "moves bytes of files and knows none"},
	{"internal/safetensors", "internal/atomicfile", "a file format knows no model"},
	{"internal/trace", "internal/atomicfile internal/env", "a timeline is told what happened"},
	{"internal/chaos", "", "faults are read here and done elsewhere"},
	{"internal/nvml", "internal/cuda", "how GPUs do is asked here, and used elsewhere"},
	{"internal/report", "internal/atomicfile", "outputs are told what to say; they ask nobody"},
	{"internal/lint", "", "rules look at source text only"},

	{"data", "internal/env internal/f32 internal/rng", "data knows nothing of models or other ranks"},
	{"kernels", "internal/arena internal/atomicfile internal/blockcopy internal/cuda internal/f32 internal/openblas internal/rng", "kernels hide memory and know no protocol"},
	{"slurm", "", "what Slurm is told is text; who loads configs and starts programs is above"},
	{"launcher", "", "the launcher brings processes together and knows nothing of their work"},
	{"transport", "internal/arena internal/blockcopy internal/env internal/mpi internal/rng", "transports move bytes and know no meaning"},
	{"internal/config", "data", "the config knows formats and table sets, and nothing that acts on it"},

	{"collectives", "internal/cuda internal/env internal/trace kernels transport", "collectives add up buffers over a transport, or NCCL"},
	{"oracle", "internal/placement", "the oracle is pure: window and cache state in, plan out"},
	{"ec", "", "codes are arithmetic on bytes: who sends, stores and commits them is above"},
	{"shard", "internal/digest internal/placement kernels", "rows know neither who uses them nor the network"},
	{"model", "internal/rng kernels", "a model sees buffers, never ranks"},
	{"lrpp", "collectives internal/env internal/placement internal/trace kernels oracle shard", "the exchange runs the oracle's plan"},
	{"commit", "collectives ec internal/env kernels shard", "commits protect rows and know no model"},
	{"checkpoint", "internal/atomicfile internal/digest internal/directio internal/env internal/placement internal/safetensors kernels shard", "checkpoints are files of one model; when to save is the trainer's"},

	{"train", "checkpoint collectives commit data ec internal/auc internal/config internal/digest internal/env internal/invariant internal/machine internal/placement internal/safetensors internal/trace kernels lrpp model oracle shard transport",
		"the step loop is the one place that knows all parts"},
	{"bench", "checkpoint collectives data ec internal/config internal/env internal/machine internal/openblas internal/placement kernels model oracle shard train transport", "benchmarks drive the parts from above"},
	{"sim", "commit data internal/config internal/env train transport", "the simulation runs the step loop as it is, from above"},
	{"internal/doctor", "internal/arena internal/config internal/cuda internal/machine internal/nvml internal/openblas kernels", "the doctor looks and changes nothing"},
	{"internal/cli", "bench checkpoint data internal/arena internal/atomicfile internal/chaos internal/config internal/doctor internal/env internal/machine internal/mpi internal/nvml internal/report internal/safetensors launcher sim slurm train transport",
		"the command line calls; nobody calls it"},
	{"cmd/ecrec", "internal/cli", "main only starts the command line"},
}

// TestImportsGoDown checks that production files import only what the table
// allows, and that the table is in order: each package stands below its users.
func TestImportsGoDown(t *testing.T) {
	allowed, why := map[string]map[string]bool{}, map[string]string{}
	for _, row := range mayImport {
		for p := range set(row.allowed) {
			if _, below := allowed[p]; !below {
				t.Errorf("the table lets %s import %s, which does not stand above it: order the table low to high, without circles", row.pkg, p)
			}
		}
		allowed[row.pkg], why[row.pkg] = set(row.allowed), row.why
	}
	for _, s := range sources(t) {
		if !s.production() {
			continue
		}
		if _, ok := allowed[s.pkg]; !ok {
			t.Errorf("%s: package %s is not in the import table of internal/lint; add a row that says what it may import, and why", s.path, s.pkg)
			continue
		}
		for _, i := range s.file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			p, ours := strings.CutPrefix(path, module+"/")
			if ours && !allowed[s.pkg][p] {
				t.Errorf("%s: %s may not import %s, because %s; pass what is needed in from above, or move the shared part below both",
					s.at(i), s.pkg, p, why[s.pkg])
			}
		}
	}
}

// TestTableIsTrue checks that no row of the table allows what nobody uses.
func TestTableIsTrue(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		for _, i := range s.file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if p, ours := strings.CutPrefix(path, module+"/"); ours {
				used[s.pkg+" "+p] = true
			}
		}
		used[s.pkg] = true
	}
	for _, row := range mayImport {
		if !used[row.pkg] {
			t.Errorf("package %s is gone: delete its row in internal/lint", row.pkg)
		}
		for p := range set(row.allowed) {
			if row.pkg != "bench" && !used[row.pkg+" "+p] {
				t.Errorf("%s no longer imports %s: delete it from its row in internal/lint", row.pkg, p)
			}
		}
	}
}
