// Package onnx writes models in the ONNX format (github.com/onnx/onnx, onnx/onnx.proto): IR version 8,
// operators of opset 17.
//
// # Format
//
// A file is a ModelProto in the encoding of protocol buffers. It holds a graph: nodes, which compute
// values of others, initializers, which are tensors, inputs and outputs. The data of a tensor is in the
// file, or at an offset of another file beside it (external data). A reader of protocol buffers accepts
// no message of 2 GiB or more, so large tensors must be external.
//
// # Invariants
//
//   - Equal calls give equal bytes.
//   - A file begins with IR version and producer, so IsOwn needs its first bytes only.
//
// The package checks nothing that a reader does: names, shapes and types are the caller's.
package onnx
