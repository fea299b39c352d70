// Package tensorboard writes scalars in the format of TensorBoard.
//
// # File
//
// An event file is a sequence of records: the length of the data (8 bytes, little-endian),
// the masked CRC-32C of those 8 bytes, the data, the masked CRC-32C of the data. The data is
// a protocol buffer, tensorflow.Event, with these fields:
//
//	1 wall_time     double, seconds since 1970
//	2 step          int64
//	3 file_version  string, "brain.Event:2", in the first record only
//	5 summary       1 value: 1 tag, string; 2 simple_value, float
//
// The format is TensorFlow's (tensorflow/core/lib/io/record_writer.cc,
// tensorflow/core/util/event.proto), written here by hand: four fields do not need a library of
// protocol buffers.
//
// # Invariants
//
//   - Each file is new, under a name that no other process of the run uses: TensorBoard reads all
//     files of a folder in the order of their names.
//   - A record is written with one system call. A record that a full disk cuts off hides the
//     records after it. The caller may ignore such errors.
package tensorboard
