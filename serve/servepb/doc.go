// Package servepb is the gRPC service of a server: the messages and the client, generated from serve.proto by make proto.
//
// # Invariants
//
//   - Fields keep their numbers: a client of an older version reads the replies.
package servepb
