// Package hook runs the command of job.on_event: to send a mail, call a webhook or copy a
// checkpoint.
//
// One command runs at a time, in the order of the events, concurrently with training: Add returns
// at once. The command reads the event from standard input, one line of JSON as in events.jsonl.
// The variable ECREC_EVENT holds its name. The output and the exit status of the command are logged
// by the process that runs it.
//
// # Limits
//
// The output of a child in the background is read as long as the run lasts, and logged for a second
// after the command.
//
// A command that takes longer than a minute is killed, with its children. At most maxQueued events
// are queued. Further events are skipped, with a line in the log. Close waits for the queue, for a
// limited time.
//
// The outcome of a command does not influence the run.
package hook
