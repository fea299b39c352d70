package export

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ecrec/ecrec/internal/atomicfile"
)

// maxTritonBatch is the largest batch that a server may form of requests.
const maxTritonBatch = 16384

// anyLength is the width of an input that may have any.
const anyLength = -1

// TritonModel is the ONNX file in a folder of a model repository: version 1.
func TritonModel(dir string) string { return filepath.Join(dir, "1", tritonFile) }

// WriteTriton writes a model as a folder of a Triton model repository, DIR/config.pbtxt and TritonModel(DIR). The name
// of the folder is that of the model.
func WriteTriton(dir string, m Model) error {
	if err := os.MkdirAll(filepath.Dir(TritonModel(dir)), 0o777); err != nil {
		return err
	}
	if err := WriteONNX(TritonModel(dir), m); err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(dir, tritonConfig), describeTriton(m))
}

const (
	tritonConfig = "config.pbtxt"
	tritonFile   = "model.onnx" // in the folder of a version
)

// tritonHead begins every config.
var tritonHead = fmt.Sprintf(`platform: "onnxruntime_onnx"
max_batch_size: %d
version_policy { latest { num_versions: 1 } }
`, maxTritonBatch)

// describeTriton returns a ModelConfig (triton-inference-server/common, model_config.proto) as text. Its shapes have no
// dimension of the batch.
func describeTriton(m Model) []byte {
	var inputs []string
	add := func(name, kind string, width int) {
		inputs = append(inputs, fmt.Sprintf("  { name: %q data_type: TYPE_%s dims: [ %d ] }", name, kind, width))
	}
	if m.Config.Dense > 0 {
		add(inputDense, "FP32", m.Config.Dense)
	}
	if n := countSingle(m.Features); n > 0 {
		add(inputIDs, "INT64", n)
	}
	for f, feature := range m.Features {
		if feature.Bag {
			add(idsOf(f), "INT64", anyLength)
		}
		if feature.Bag && feature.Weighted {
			add(weightsOf(f), "FP32", anyLength)
		}
	}
	return fmt.Appendf([]byte(tritonHead), `input [
%s
]
output [
  { name: %q data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }
]
dynamic_batching { }
`, strings.Join(inputs, ",\n"), outputScore)
}
