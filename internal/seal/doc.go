// Package seal encrypts and authenticates the bytes that two processes send each other over
// a connection.
//
// # Terms
//
// A secret is shared by both processes and by no others. An Ephemeral is the private half of
// an X25519 key that one process draws for one connection. Its public half is the process's
// nonce in the handshake. A Pair is the two directions of a connection. A record is a head of
// four bytes (the length of the rest), then the ciphertext and a tag of 16 bytes.
//
// # Keys
//
// Each direction has its own key, by HKDF-SHA256 (RFC 5869):
//
//	prk = Extract(salt: SHA-256(transcript), key: X25519(mine, theirs) || secret)
//	key = Expand(prk, purpose || direction)
//
// The transcript is every message of the handshake, so it contains both nonces. If a message
// is changed on the way, the two sides derive different keys, and the first record fails.
// Because of X25519 the secret alone cannot decrypt a recorded connection. A peer without the
// secret fails at its first record.
//
// # Nonces
//
// The nonce of a record is the direction (1 byte), zeros (3 bytes) and the number of the
// record in this direction under this key (8 bytes). No pair of key and nonce is used twice:
//
//   - Within a direction the number rises by one with each record. The key is replaced after
//     recordsPerKey of them, by Expand of the key itself.
//   - The two directions of a connection have different keys and different nonces.
//   - Two connections have different keys, because each end draws 255 fresh bits for each. A
//     process that reconnects, in the same generation or after a restart, therefore starts at
//     number 0 under another key.
//
// The generation of a world is part of the transcript, so it is part of the key.
//
// # Detection
//
// The number of a record is never sent: the receiver counts. A record that was changed,
// repeated, left out, moved, cut or reflected does not authenticate under the expected number
// and direction. Open returns ErrForged then, and so does every later read of the Conn. A
// connection that ends between two records returns io.EOF, as any connection does: the
// protocol above must treat that as a loss.
//
// # What it never does
//
// It hides no lengths and no times. It does not decide which peers may connect: the handshake
// does.
package seal
