// Package mailbox is an example of a transport: a world of ranks in one process, in which a
// message is copied when both its send and its receive are posted.
package mailbox
