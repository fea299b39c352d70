// Package safetensors reads and writes tensor files in the safetensors format
// (github.com/huggingface/safetensors), of types F32, I32 and U64.
//
// # Format
//
// Eight bytes, little-endian: the length n of the header. n bytes of JSON: an
// object from tensor name to {"dtype", "shape", "data_offsets": [begin, end)},
// offsets in bytes from the end of the header, and perhaps "__metadata__", an
// object of strings. Then the data, row-major, little-endian; tensors cover it
// without gap or overlap.
//
// A text of the metadata of more than 4 MiB has no room in a header, which readers limit. It is a
// tensor of type U8 with the name of its key, padded with spaces to a multiple of 8 bytes.
//
// The member "ecrec.checksum" of the metadata is the XXH3 (128 bits) over all parts of a file in the order of their names: the
// name of each part, and the XXH3 of its content. A part is a tensor, named by name, type and shape, or a text whose key begins
// with "ecrec.". Files of other programs have no checksum, and are not checked.
//
// # Invariants
//
//   - Open accepts a file only if its header is complete and the place of every
//     tensor agrees with its shape, its dtype and the file's size. Later reads
//     therefore never use a wrong offset.
//   - Neither side holds a tensor in memory: a Tensor is read through
//     io.ReaderAt, a Writer streams. Both sides hash the data as it passes.
//   - Without a successful Commit the file does not exist.
//
// Offsets, sizes and lengths are bytes; shapes are elements. All calls block on
// the disk: rank code makes them inside Env.Do.
package safetensors
