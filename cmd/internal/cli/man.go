package cli

import "github.com/ecrec/ecrec/cmd/internal/manpage"

// manNotes are the sections of the man page after the commands and flags.
var manNotes = []manpage.Section{
	{Title: "Exit status", Items: []manpage.Item{
		{Term: "0", Text: "Done."},
		{Term: "1", Text: "The run or a check of the doctor failed."},
		{Term: "2", Text: "Bad usage, config or data. Nothing was started or written."},
		{Term: "130, 143", Text: "Stopped by SIGINT or SIGTERM, with progress saved. A second signal ends the run at once."},
	}},
	{Title: "Environment", Items: []manpage.Item{
		{Term: "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT",
			Text: "Rank and number of processes, and the rendezvous address, for processes started by hand or by torchrun."},
		{Term: "ECREC_SECRET", Text: "Shared secret by which the processes of a job authenticate each other, if no launcher or rendezvous file provides one."},
		{Term: "ECREC_CUDA_PATH", Text: "Folders to search first for NVIDIA's libraries."},
	}},
	{Title: "Files", Items: []manpage.Item{
		{Term: "CONFIG", Text: "A run config in TOML. The config.toml that a run writes to its output folder lists every key."},
		{Term: "job.out", Text: "The output folder: summary.json, metrics.jsonl, events.jsonl, config.toml, process-P.log and model.safetensors."},
	}},
	{Title: "Examples", Items: []manpage.Item{
		{Term: "ecrec train /usr/share/doc/ecrec/examples/quickstart.toml --set job.out=$HOME/quickstart",
			Text: "Trains the small quickstart model that is part of the package."},
		{Term: "ecrec train run.toml --np 5 --set ec.code=xor --chaos kill:2@120",
			Text: "Trains in five processes and kills one of them at step 120, to show a recovery."},
	}},
}
