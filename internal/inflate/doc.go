// Package inflate decompresses gzip files (RFC 1952), whose members are deflate streams (RFC 1951).
//
// # Terms
//
// A member is a header, a deflate stream and a trailer with the CRC-32 and the size of its text. A file is one
// or more members, and their text is one text. A block is a part of a stream with its own codes. A match copies text from up to
// windowBytes before it.
//
// # Speed
//
// Reader decodes into the caller's memory. Bits are held 64 at a time, and one look into a table gives one literal, two literals or
// the base of a match. The tables follow the layout of zlib's (Adler, "inffast"): codes of up to a number of bits in a first
// table, which links to second ones for the longer codes.
//
// # Invariants
//
//   - The text is a pure function of the file.
//   - Any bytes are either decompressed, as compress/gzip does it, or an error. No size that they name is allocated. Reserved flags in
//     a header are an error, which compress/gzip ignores.
//   - No byte behind the file's end counts as read: InputBytes never exceeds the size of the input.
//
// # Never
//
// The package starts no goroutine. It keeps no optional field of a header.
package inflate
