package export

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/atomicfile"
)

// maxTritonBatch is the largest batch that a server may form of requests.
const maxTritonBatch = 16384

// TritonModel is the ONNX file in a folder of a model repository: version 1.
func TritonModel(dir string) string { return filepath.Join(dir, "1", "model.onnx") }

// WriteTriton writes a model as a folder of a Triton model repository, DIR/config.pbtxt and TritonModel(DIR). The name
// of the folder is that of the model.
func WriteTriton(dir string, m Model) error {
	if err := os.MkdirAll(filepath.Dir(TritonModel(dir)), 0o777); err != nil {
		return err
	}
	if err := WriteONNX(TritonModel(dir), m); err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(dir, "config.pbtxt"), describeTriton(m))
}

// describeTriton returns a ModelConfig (triton-inference-server/common, model_config.proto) as text. Its shapes have no
// dimension of the batch.
func describeTriton(m Model) []byte {
	dense := ""
	if m.Config.Dense > 0 {
		dense = fmt.Sprintf("\n  { name: %q data_type: TYPE_FP32 dims: [ %d ] },", inputDense, m.Config.Dense)
	}
	return fmt.Appendf(nil, `platform: "onnxruntime_onnx"
max_batch_size: %d
input [%s
  { name: %q data_type: TYPE_INT64 dims: [ %d ] }
]
output [
  { name: %q data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }
]
dynamic_batching { }
`, maxTritonBatch, dense, inputIDs, m.Config.Tables, outputScore)
}
