// Package export writes models for other programs: ONNX files, and model repositories of the Triton
// Inference Server.
//
// A model is read once, as a stream of tensors in the order of a model file. Its computation is the
// graph of its kind (model.Graph). An export maps inputs to scores, (b) float32 probabilities:
//
//   - dense, (b, n) float32 after the transforms of their columns; absent if there are none
//   - ids, (b, features) int64 rows of the tables, for the features that have one id each
//   - for feature f, if it has any number of ids, a bag: ids_f, (b, n) int64, for any n, where -1 is no
//     id, and if they have weights, weights_f, (b, n) float32
//
// Its metadata is that of the model file, so a reader can make the inputs of raw data.
//
// Tensors of tables are in the ONNX file while the model has at most maxWhole bytes. Else they are in
// a file beside it, FILE.data.
package export
