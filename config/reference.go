package config

import (
	"reflect"
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
)

// Doc is the row of the config reference that no code can derive.
type Doc struct {
	Key   string
	Unset string // the default in words, where it follows from other values
	Read  string // the packages that act on the value
	Text  string // the meaning, in Markdown
}

// Entry is a row of the config reference.
type Entry struct {
	Doc
	Type    string
	Default string  // as TOML
	Values  []Value // the values allowed, for keys with a few
	Absent  bool    // this build refuses every value except the default
}

// Value is a word that a key may have.
type Value struct {
	Word string
	Doc  string // one line, of the registry that holds the word; may be empty
}

// Reference documents every key that takes a value, in the order of Config. docs/config.md is
// written from it.
func Reference() []Entry {
	docs := slices.Concat(jobAndData, modelAndTrain)
	for _, g := range new(Optimizers).groups() {
		for _, d := range optimizerRule {
			if g.key == "optimizer.linear" {
				d.Unset = "`optimizer.sparse." + d.Key + "`" + linearNotes[d.Key]
			}
			d.Key = g.key + "." + d.Key
			docs = append(docs, d)
		}
	}
	docs = append(docs, exchangeAndStorage...)

	c := Default()
	defaults, values, absent, docOf := map[string]string{}, map[string][]Value{}, map[string]bool{}, registryDocs()
	for _, kv := range c.KeyValues() {
		defaults[kv.Key] = kv.Value
	}
	for _, choice := range c.choices() {
		for _, word := range choice.allowed {
			values[choice.key] = append(values[choice.key], Value{word, docOf[choice.key+" "+word]})
		}
	}
	for _, a := range c.absentKeys() {
		absent[a.key] = a.whole
	}
	entries := make([]Entry, len(docs))
	for i, d := range docs {
		entries[i] = Entry{Doc: d, Type: typeName(known[d.Key]), Default: defaults[d.Key], Values: values[d.Key], Absent: absent[d.Key]}
	}
	return entries
}

// registryDocs are the lines of documentation of all registries, by key and word.
func registryDocs() map[string]string {
	docs := map[string]string{"cache.mode auto": "planned"}
	for _, f := range data.Formats {
		docs["data.format "+f.Name] = f.Doc
	}
	for _, k := range model.Kinds {
		docs["model.kind "+k.Name] = k.Doc
	}
	for key, forms := range map[string][]model.Form{
		"model.interaction": model.Interactions, "model.cross": model.Crosses, "model.structure": model.Structures,
	} {
		for _, f := range forms {
			docs[key+" "+f.Name] = f.Doc
		}
	}
	for _, r := range kernels.Rules {
		for _, g := range new(Optimizers).groups() {
			docs[g.key+".kind "+r.Name] = r.Doc
		}
	}
	for _, m := range lrpp.Modes {
		docs["cache.mode "+m.Name] = m.Doc
	}
	for _, c := range ec.Codes {
		docs["ec.code "+c.Name] = c.Doc
	}
	return docs
}

// typeName names the type of a value, nil for a key that does not exist.
func typeName(t reflect.Type) string {
	if t == nil {
		return ""
	}
	switch reflect.New(t).Interface().(type) {
	case *Size:
		return "size"
	case *Duration:
		return "duration"
	case *Rate:
		return "size, \"auto\" or \"max\""
	case *Lookahead:
		return "integer or \"auto\""
	case *Interval:
		return "duration or integer"
	case *Tables:
		return "list of integers, table, or string"
	case *Files:
		return "list of strings, or string"
	case *Transforms:
		return "table of strings"
	case *Betas:
		return "list of two numbers"
	case *Hots:
		return "list of integers, or string"
	case *Pooling:
		return "string, or list of strings"
	case *Command:
		return "string, or list of strings"
	case unstable.Unmarshaler:
		return t.Name()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "list of " + typeName(t.Elem()) + "s"
	default:
		return "string"
	}
}

var jobAndData = []Doc{
	{"job.name", "the config file's name without its extension", "cmd/internal/cli train",
		"Name of the run, in outputs, metrics and checkpoints. `--resume auto` takes only checkpoints of this name."},
	{"job.seed", "", "cmd/internal/cli train",
		"Seed of everything random: initial weights and rows, the order of samples, synthetic data."},
	{"job.out", "`runs/NAME` beside the config", "cmd/internal/cli",
		"Output folder. All processes of a job must see the same folder."},
	{"job.ranks", "the number of processes", "train",
		"Number of logical ranks over which rows and samples are spread. It is part of the definition of the result. On resume, a " +
			"config without the key takes the checkpoint's."},
	{"job.threads", "", "train",
		"Compute threads of a process. 0: its share of the cores of its machine. A core is shared by the processes that are bound to it, if a launcher has bound them."},
	{"job.device", "", "cmd/internal/cli train",
		"`cpu`, `cuda` (an NVIDIA GPU), or `auto`: a GPU if there is one. Nothing of NVIDIA is linked: the driver and NVRTC are opened at run time. `ECREC_CUDA_PATH` names folders to search first. `--device` overrides the key."},
	{"job.secure", "", "cmd/internal/cli train",
		"Which connections between workers are encrypted and authenticated. `auto`: those between hosts; `on`: those within a host too; `off`: none. See [Security](clusters.md#security)."},
	{"job.save_model", "", "cmd/internal/cli",
		"Whether the final model is written to `model.safetensors` in `job.out`."},
	{"job.digests", "", "train",
		"Whether `events.jsonl` gets the digest of the whole model after every `ec.commit_every` steps, also with `ec.code = \"none\"`. See [digests](exactness.md#the-digest-of-every-commit)."},
	{"job.on_event", "", "cmd/internal/cli",
		"Command to run at losses, recoveries, checkpoints and the end: a string for the shell, or a list of program and arguments. " +
			"See [hooks](operate.md#hooks)."},

	{"data.format", "", "data",
		"Format of the files, or `kafka` for a topic. See [data](data.md)."},
	{"data.train", "", "cmd/internal/cli train",
		"Training files, read in this order: names, folders or patterns like `day_*.gz`; see [files](data.md#files). With `kafka` one topic: `kafka://HOST:PORT/TOPIC` or `file:DIR`, see [topics](stream.md#training-from-a-topic). Required, except for `synthetic`."},
	{"data.eval", "", "cmd/internal/cli train",
		"Evaluation files, named as in `data.train`. When given, there is always an evaluation at the end. Or a share of the training data, which is then held back: `\"10%\"` (drawn evenly), `\"last 10%\"`. See [split](data.md#split)."},
	{"data.shuffle", "`block`, or `none` for `synthetic` and `kafka`", "train",
		"`block`: a seeded order, another in each epoch, in which any step is found without reading those before. `none`: samples in file order."},
	{"data.on_error", "", "config",
		"`fail`: a malformed line ends the run before training. `skip`: malformed lines are skipped, counted and reported."},
	{"data.transform", "", "data",
		"Transform of each feature that has not the default one, as in `age = \"standard\"`, or `day = \"weekday of time\"` for a feature that is made of another column. See [transforms](data.md#transforms)."},
	{"data.min_count", "", "data",
		"With counted tables: a text that fewer samples have gets no row of its own."},
	{"data.hots", "one", "data",
		"Number of ids of each feature of `synthetic` data: a list, or the name of a set. `mlperf`: the 214 ids of MLPerf's DLRM-DCNv2. `hundred`: 100 ids of 8 features."},
	{"data.law", "", "data",
		"When rows of `synthetic` data are used. `independent`: each id is drawn by itself. `bursts`: some ids are drawn again for some time. Batches then share as many rows as those of Criteo Kaggle in BagPipe. `tails`: as `independent`, but small tables have a long tail too. See [laws](data.md#laws-of-synthetic-ids)."},
	{"data.cache", "`job.out`", "config",
		"Folder of the record files that text is converted to. Runs with the same folder share conversions. See " +
			"[conversions](data.md#text-is-converted-once)."},
	{"data.csv.label", "", "data",
		"Column of the label, 0 or 1. The keys of `[data.csv]` name columns of Parquet files too."},
	{"data.csv.weight", "none: all weights are 1", "data",
		"Column of the weights of samples: numbers, 0 or more. The training loss and the gradient of a sample are multiplied by its weight. The mean is still over the number of samples. Evaluations are not weighted, and `data.eval` files need no such column. See [weights](data.md#weights-of-samples)."},
	{"data.csv.dense", "", "data",
		"Columns of numbers, the input of the bottom MLP. Without any the model has no bottom MLP: `model.bottom_mlp = []`, or `deepfm`."},
	{"data.csv.categorical", "", "data",
		"Columns of categories, one per embedding table."},
	{"data.csv.delimiter", "", "data",
		"The byte between two fields."},
	{"data.csv.na", "", "data",
		"Texts that mean a missing value, like `\"NA\"`. The empty text always does."},
	{"data.csv.separator", "none: a field is one id", "data",
		"The byte between the ids of a categorical field, such as `|`. An empty field has no ids. Lists in Parquet files need none."},
	{"data.csv.bags", "all categorical columns", "data",
		"The categorical columns whose fields are split by `data.csv.separator`, or are lists in Parquet files."},
	{"data.csv.weighted", "", "data",
		"Whether ids of these fields have weights, as in `7:0.5|9`, or as structs of `id` and `weight` in Parquet lists. An id without one has weight 1."},
	{"data.kafka.columns", "`label`, `weight`, `dense` and `categorical` of `[data.csv]`, in that order", "data",
		"The fields of a message, in order, by the names of `[data.csv]`; others are not read. Messages have no header."},
	{"data.kafka.begin", "", "train",
		"The first sample of a run that does not resume: the `first` message that the topic has, or the `last`, that is, the next one that is written."},
	{"data.kafka.at_end", "", "train",
		"`stop`: the messages that are there at the start of the run are all. `wait`: the run waits for more, until `train.iterations`, a signal, or `data.kafka.idle`."},
	{"data.kafka.idle", "`0s`: for ever", "train",
		"With `at_end = \"wait\"`, how long the next step may have no sample until the run ends. The samples of a step that is not complete are left to a run that resumes."},
}

var modelAndTrain = []Doc{
	{"model.kind", "", "train",
		"Kind of model."},
	{"model.embedding_dim", "", "model",
		"Weights of an embedding row."},
	{"model.tables", "required", "train",
		"Rows of each embedding table; or `\"auto\"`: as many as the data needs; or a table by column, as in `{user = 1000, item = \"auto\"}`; or the name of a set: `criteo-kaggle`, `criteo-terabyte`, `criteo-terabyte-40m` or `avazu`. See [tables](data.md#tables)."},
	{"model.table_of", "each feature has a table of its own", "config",
		"The name of the table of each feature. Features with the same name share a table. `model.tables` then lists the rows of each table, in the order in which they are first named here."},
	{"model.pooling", "", "config",
		"How the rows of a feature with several ids become one: `sum` or `mean`, for all features, or a list with a word for each. A mean divides the sum by the number of ids, also if ids have weights. No ids give zeros."},
	{"model.bottom_mlp", "", "model",
		"Output widths of the layers over the dense features. For `dlrm` with `model.interaction = \"dot\"` the last is `model.embedding_dim`. With `[]` dense features pass unchanged in `wdl` and `dcn`. Data without columns of numbers needs `[]`."},
	{"model.top_mlp", "`[1]` for `wdl`, else `[512, 256, 1]`", "model",
		"Output widths of the layers over the interactions. The last is 1. `[1]` is one linear layer."},
	{"model.cross_layers", "2 for `dcn`", "model",
		"Number of cross layers."},
	{"model.cross_rank", "8 for `dcn`", "model",
		"Rank of the cross layers with `model.cross = \"low-rank\"`."},
	{"model.batch_norm", "true for `deepfm`, else false", "model",
		"Batch norm of the hidden layers of the MLPs, before their activation, over the global batch. The last layer of an MLP is not hidden, except that of the top MLP in `dcn` with `model.structure = \"parallel\"`, which `fc` follows. Evaluation uses running averages. With it the result depends on the number of ranks only through the order of sums, as without it."},
	{"model.dropout", "", "model",
		"Share of the units of the hidden layers that a training step drops, below 1. Which ones depends on `job.seed`, the step and the sample's place in the global batch, not on ranks."},
	{"model.interaction", "", "model",
		"How `dlrm` combines the bottom MLP's output and the embedding rows."},
	{"model.linear", "", "model",
		"For `wdl`: adds a linear model over dense features and ids to the logit. The weight of an id is a part of its row, after the embedding."},
	{"model.cross", "", "model",
		"Form of the cross layers of `dcn`."},
	{"model.structure", "", "model",
		"How `dcn` combines the cross layers with the top MLP."},
	{"model.dense_embedding", "", "model",
		"Each dense feature has a vector of `model.embedding_dim` weights, which its value scales, and a linear weight. Without it `deepfm` does not read dense features."},
	{"model.init_from", "no file: weights are drawn from the seed", "cmd/internal/cli train",
		"A safetensors file with the initial weights."},

	{"kernels.blas", "", "train",
		"The implementation of matrix products. `exact`: own kernels, the same bits on every device. `exact-tc`: products of integers on the tensor cores of a GPU, with other bits, the same on every device; slow on a CPU. `openblas` is not exact across CPU models. On a GPU `cublas`, `cublas-tf32` and `cublas-bf16` repeat their bits on one kind of GPU only."},

	{"train.global_batch", "", "train",
		"Samples of a step, over all ranks. At least one per rank that trains."},
	{"train.iterations", "0: `train.epochs` gives the length", "train",
		"Steps of the run. Set this or `train.epochs`. With a learning rate that decays, the length is part of the definition of the result."},
	{"train.epochs", "0: `train.iterations` gives the length", "train",
		"Passes over the training data."},
	{"train.eval_every", "", "train",
		"Steps between two evaluations. 0: at the end only."},
	{"train.keep", "", "train",
		"Which model is saved: `best`, that of the best evaluation, or `last`. Without evaluation it is the last. See [the model of a run](operate.md#the-model-of-a-run)."},
	{"train.best_by", "", "train",
		"The measure by which one evaluation is better than another: lower `logloss` or higher `auc`. A tie is not better."},
	{"train.patience", "", "train",
		"Evaluations of `train.eval_every` in a row without a better one after which the run ends. 0: it does not end early. With it, `train.eval_every`, `train.best_by` and `data.eval` are part of the definition of the result."},
	{"train.plateau_patience", "", "train",
		"Evaluations of `train.eval_every` in a row without a better one after which both learning rates are multiplied by `train.plateau_factor`; counting begins again. 0: never. With it, the same keys are part of the definition of the result."},
	{"train.plateau_factor", "", "train",
		"The factor of `train.plateau_patience`, between 0 and 1."},
	{"train.log_every", "", "cmd/internal/cli",
		"Steps between two lines of `metrics.jsonl`."},
	{"train.clip_dense", "0: no limit", "train",
		"Most global norm of the dense gradients: larger ones are scaled down, as by PyTorch's `clip_grad_norm_`. Rows are not scaled."},
	{"train.clip_norm", "0: no limit", "train",
		"Most global norm of all gradients: the dense ones, and those of the rows that a batch uses. No row is updated before all gradients are known, so none are delayed (`cache.delayed_sync`), and `cache.mode` cannot be `lrpp`. See [clipping](exactness.md#clipping)."},
	{"train.positive_weight", "", "train",
		"Factor of the training losses of samples with label 1, as PyTorch's `pos_weight`. The mean is still over the number of samples. Evaluations are not weighted. Above 1, predictions are higher than the rates of the labels."},
}

// linearNotes complete the defaults of [optimizer.linear].
var linearNotes = map[string]string{"eps": ", or the default of the rule if it is another"}

// optimizerRule documents the keys of [optimizer.dense], [optimizer.sparse] and
// [optimizer.linear].
var optimizerRule = []Doc{
	{"kind", "", "train",
		"Update rule. Rows are updated where a batch touches them only, once a step, by the sum of their gradients."},
	{"lr", "", "train",
		"Learning rate, after the warm-up and before the decay."},
	{"momentum", "", "train",
		"Factor on the previous update, for `momentum`."},
	{"eps", "1e-8 for `adam` and `adamw`, else 1e-10", "train",
		"Added to the denominator, for the adaptive rules except `ftrl`."},
	{"betas", "", "train",
		"Decay rates of the two running means, for `adam` and `adamw`."},
	{"beta", "", "train",
		"Added to the root of the sum of squares, for `ftrl`. `lr` is the paper's alpha."},
	{"l1", "", "train",
		"For `ftrl`: weights whose z is at most this far from 0 are 0."},
	{"l2", "", "train",
		"For `ftrl`: added to the divisor of z."},
	{"weight_decay", "", "train",
		"L2 penalty: this factor times the weight is added to its gradient, as by PyTorch's `weight_decay`. With `adamw` the step's rate times this factor times the weight is subtracted from the weight instead. Rows decay at the steps that use them only. See [weight decay](exactness.md#weight-decay)."},
	{"dense", "", "config train",
		"For rows, with `adam` and `adamw`: every row of the tables is updated at each step, rows without a gradient by a gradient of 0, as PyTorch does for `nn.Embedding` without `sparse=True`. A step then reads and writes all rows with their state. See [dense Adam](exactness.md#dense-adam)."},
	{"warmup_steps", "", "train",
		"Steps over which the rate rises linearly from 0. If it decays later, it is held until then at the rate of the last step that raised it, as in the reference DLRM."},
	{"decay_start", "", "train",
		"Step at which the decay begins."},
	{"decay_steps", "", "train",
		"Steps over which the rate falls to 0, quadratically. 0: it does not decay."},
}

var exchangeAndStorage = []Doc{
	{"collectives.transport", "", "cmd/internal/cli train",
		"How ranks exchange messages. `auto`: memory, shared memory or TCP by where they are, and NCCL where each process has a GPU of its own. `mem` is for one process. `mpi` needs a [build with MPI](clusters.md#mpi-between-the-processes)."},
	{"collectives.deterministic", "", "train",
		"`false` leaves the order of sums between GPUs to NCCL, and gives up exactness."},
	{"oracle.lookahead", "", "train",
		"With `cache.mode = \"lrpp\"`: how many batches ahead rows are planned, or `auto`: as many as the cache has room for. It is reduced, with a warning, where they would take more than a quarter of the memory available, or have too many rows for a plan."},
	{"cache.mode", "", "train",
		"How rows reach the ranks that use them."},
	{"cache.max_bytes", "", "train",
		"With `lrpp`: most memory of the rows cached on a rank. A step whose own rows do not fit ends the run, and the error names the size that they need."},
	{"cache.delayed_sync", "", "train",
		"Whether gradients that the next step does not need may move while it computes."},
	{"ranks.servers", "", "train",
		"Ranks that only hold rows. Set it with `ranks.trainers`; 0 for both: every rank does both."},
	{"ranks.trainers", "", "train",
		"Ranks that only train. The sum over ranks is grouped by trainers, so their number defines the result."},
	{"ranks.readers", "", "train",
		"Ranks that only read and decode data for the others."},
	{"ec.code", "", "train",
		"Erasure code over the rows. A group can lose `ec.r` ranks at once: one with `xor`. See [recovery](recovery.md)."},
	{"ec.k", "", "train",
		"Data rows of a stripe: a group is k + r ranks."},
	{"ec.r", "", "train",
		"Parity rows of a stripe. Parities take r/k of the rows' memory."},
	{"ec.commit_every", "", "train",
		"Steps between two commits. A loss costs at most two such epochs, and a step that only the lost process had ended. With `store.tier = \"file\"` there may be more commits: rows that were written must be in the log before they leave memory."},
	{"ec.rebuild_rate", "", "train",
		"Bytes of lost rows and parities that each rank rebuilds in a second, beside training. `\"auto\"`, or 0: as many as leave training about 95 % of its throughput, by measurements during the rebuild. `\"max\"`: training waits until all is rebuilt. The result does not change. See [recovery](recovery.md#the-rate-of-a-rebuild)."},
	{"elastic.spares", "", "cmd/internal/cli",
		"Processes that wait for another's loss. `--np P` starts that many more; under mpirun or srun they are the last of those started."},
	{"elastic.max_restarts", "", "cmd/internal/cli",
		"Losses in a row, without a commit between two of them, after which the job ends."},
	{"elastic.heartbeat", "", "cmd/internal/cli sim",
		"Time between two signs of life of a process. With `ec.code`, a process that is silent for 5 heartbeats is lost; without, for 30 s or 5 heartbeats, whichever is longer. At least 10 ms."},
	{"elastic.standby", "", "cmd/internal/cli",
		"Whether each supervisor of a job with `ec.code` keeps a process in reserve, which replaces its next lost worker. Recovery then does not wait for the start of a process, which takes tens of milliseconds. The process takes some megabytes of memory."},
	{"store.tier", "", "train",
		"`\"file\"` keeps rows on a disk of each machine, in the folder `store.path`, and those in use in memory. The result does not change. See [rows beyond memory](recovery.md#rows-beyond-memory)."},
	{"store.path", "`store` in `job.out` where `store.tier` is `\"file\"`, else none", "store train",
		"Folder, on a disk of each machine, of logs with the rows of every commit. If all processes are lost, `--resume auto` continues from the last commit there, seconds old. See [recovery](recovery.md)."},
	{"store.dram_bytes", "", "train",
		"With `store.tier = \"file\"`: memory of each rank for rows in use, for rows that are read ahead, and for the index of all its rows."},
	{"checkpoint.dir", "`checkpoints` in `job.out` where `checkpoint.every` is set, else none", "cmd/internal/cli train",
		"Folder of the checkpoints. One run at a time saves to it."},
	{"checkpoint.every", "only at the end, and when a signal stops the run", "train",
		"Time or steps between two checkpoints: `\"30m\"` or `500`."},
	{"checkpoint.kind", "", "train",
		"`full`: all of the model. `incremental`: only the rows that were written since the checkpoint before, and the dense part; from time to time, all. See [increments](recovery.md#increments)."},
	{"checkpoint.keep", "", "train",
		"How many checkpoints to keep, the newest, beside the parents that increments among them need. 0: all."},
	{"stream.to", "none", "train",
		"Topic that the rows of every commit are sent to: `\"kafka://HOST:PORT/TOPIC\"`, or `\"file:DIR\"`. `ecrec follow` makes models of it. Commits then have digests, as with `job.digests`. See [streams](stream.md)."},
	{"stream.backlog", "", "train",
		"How many bytes of rows wait while the topic takes them too slowly, or not at all. Then commits are merged: readers see fewer " +
			"of them, with all rows. Up to twice as much may wait for the commit of a checkpoint, which is kept. Training does not wait."},
	{"metrics.listen", "no endpoint", "cmd/internal/exporter",
		"Address of the metrics endpoint for Prometheus, like `\":9100\"`. The next process of a node takes the next port."},
	{"metrics.textfile", "no file", "cmd/internal/exporter",
		"File for node_exporter's textfile collector; its name ends in `.prom`."},
	{"metrics.tensorboard", "", "cmd/internal/cli",
		"Whether event files for TensorBoard are written to `job.out/tensorboard`."},
}
