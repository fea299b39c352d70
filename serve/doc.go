// Package serve replies to requests with the model that a follower keeps up to date: predictions for raw rows, rows of tables, and the
// marker that the model stands at.
//
// # Terms
//
// A marker is a step of a run at which the digest of the follower's model was that of the run. Requests see models at markers only.
//
// A model has two sides: the rows of the follower, with their optimizer state, and a copy of their weights. Each side has lanes, which
// hold the dense part. A request has one lane of one side from its first row to its last. A view is a side at a marker.
//
// # The switch to a marker
//
// Requests use the copy while the follower applies a cut to its rows and compares the digest. Then the view of these rows becomes
// the current one, by one store of a pointer. Once the last request has left the copy, the same rows are changed there, and the
// copy becomes current again. Requests choose the view that is current: none waits for a cut, and the follower waits for the
// requests that run, which never wait for a network while they have a lane.
//
// # Invariants
//
//   - A reply is of one marker: its scores and weights, and the step and digest beside them.
//   - A score has the bits that package predict computes for the same row and a checkpoint of the marker: a lane is predict's.
//   - A model whose digest differs is never visible. After the end of a follower the last right model stays.
//   - Numbers in JSON are the shortest decimals that parse back to the same float32.
//
// # Limits
//
// A request has at most 16 MiB and 16,384 rows. Requests are not compressed, and one of gRPC has at most maxFields values, since each takes
// much more memory than its bytes. At most maxRequests requests with a body are read at a time, of each the first shortBody bytes. At most
// maxBodies of the short ones are replied to at a time, and as many of the long ones are read. Others wait. Connections above
// maxConnections are closed. The memory is that of the follower, a second copy of the weights of the rows that
// the run has written, and the dense part for each lane.
package serve
