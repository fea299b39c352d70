// Package safetensors reads and writes tensor files in the safetensors format
// (github.com/huggingface/safetensors), of types F32 and U64.
//
// # Format
//
// Eight bytes, little-endian: the length n of the header. n bytes of JSON: an
// object from tensor name to {"dtype", "shape", "data_offsets": [begin, end)},
// offsets in bytes from the end of the header, and perhaps "__metadata__", an
// object of strings. Then the data, row-major, little-endian; tensors cover it
// without gap or overlap.
//
// # Invariants
//
//   - Open accepts a file only if its header is whole and every tensor lies
//     exactly where shape, dtype and file size say. Nothing is read by a wrong
//     offset later.
//   - Neither side holds a tensor in memory: a Tensor is read through
//     io.ReaderAt, a Writer streams.
//   - A file that Commit did not finish is not there at all.
//
// Offsets, sizes and lengths are bytes; shapes are elements. All calls block on
// the disk: rank code makes them inside Env.Do.
package safetensors
