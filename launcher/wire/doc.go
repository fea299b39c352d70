// Package wire carries the messages of a job's processes over connections: it encodes them,
// authenticates both ends, and seals the messages after that.
//
// # Format
//
// A frame is its length (4 bytes, big-endian), then a message as JSON. The highest bit of the
// length marks a frame in clear. All frames after the handshake are sealed: encrypted and
// authenticated with their number (package internal/seal). A parent and its child, connected
// by a socket pair, need no handshake and send in clear.
//
// # Handshake
//
//	listener                         dialler
//	   ── nonce (ephemeral key) ──────▶
//	   ◀───────────────────── nonce ──      from here on all is sealed
//	   ◀─── join, visit or raft ──────
//	   ── welcome, or refused ────────▶
//	   ◀─────────────────────── ack ──
//
// The keys follow from the job's secret and both ephemeral keys, so an end without
// the secret cannot open the first sealed frame. Over a local socket the kernel vouches for
// the peer's user instead, and the secret is empty.
//
// # Invariants
//
//   - No field of a message is used before its frame is authenticated, except the nonce.
//   - A frame that was changed, repeated, left out or reflected ends the connection.
//   - Every frame, wait and queue has a limit. Peers that send nothing cannot keep others out.
//
// # What it never does
//
// It decides nothing about the job: Acceptor.Check, given by the caller, admits or refuses.
package wire
