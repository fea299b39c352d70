// Package export writes models for other programs: ONNX files, and model repositories of the Triton
// Inference Server.
//
// A model is read once, as a stream of tensors in the order of a model file. Its computation is the
// graph of its kind (model.Graph). An export maps dense features, (b, n) float32 after the transforms
// of their columns and absent if there are none, and ids, (b, tables) int64 rows of each table, to scores, (b) float32 probabilities.
// Its metadata is that of the model file, so a reader can make both inputs of raw data.
//
// Tensors of tables are in the ONNX file while the model has at most maxWhole bytes. Else they are in
// a file beside it, FILE.data.
package export
