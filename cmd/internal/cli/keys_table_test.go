package cli_test

import (
	"slices"
	"strings"
)

// fromTopic trains from the topic that newBases writes.
var fromTopic = []string{"data.format=kafka", `data.train=["file:topic"]`, `data.kafka.columns=["label", "label2", "a", "b", "c", "d"]`}

// keyEffects lists, for every key, a change and its visible effect.
var keyEffects = map[string]effect{
	"job.name":       {set: []string{"job.name=other"}, shows: files("runs/other/summary.json")},
	"job.seed":       {set: []string{"job.seed=7"}, shows: digest},
	"job.out":        {set: []string{"job.out=elsewhere"}, shows: files("elsewhere/summary.json")},
	"job.ranks":      {set: []string{"job.ranks=2"}, shows: digest},
	"job.threads":    {set: []string{"job.threads=3"}, shows: says(" 3 threads ")},
	"job.device":     {with: []string{"kernels.blas=openblas"}, set: []string{"job.device=cuda"}, shows: says(`job.device is "cuda"`)},
	"job.secure":     {with: []string{"collectives.transport=mpi"}, set: []string{"job.secure=on"}, shows: refused},
	"job.digests":    {set: []string{"job.digests=true"}, shows: lines("runs/run/events.jsonl")},
	"job.on_event":   {set: []string{"job.on_event=cat >event.json"}, shows: files("runs/run/event.json")},
	"job.save_model": {set: []string{"job.save_model=false"}, shows: files("runs/run/model.safetensors")},

	"data.format":    {config: "csv.toml", set: []string{"data.format=record"}, shows: says("record file")},
	"data.train":     {config: "csv.toml", set: []string{`data.train=["other.csv"]`}, shows: digest},
	"data.eval":      {config: "csv.toml", set: []string{`data.eval=["other.csv"]`}, shows: figure("eval")},
	"data.shuffle":   {config: "csv.toml", set: []string{"data.shuffle=none"}, shows: digest},
	"data.on_error":  {config: "csv.toml", with: []string{`data.train=["bad.csv"]`}, set: []string{"data.on_error=skip"}, shows: code},
	"data.transform": {config: "csv.toml", set: []string{`data.transform={a = "standard"}`}, shows: digest},
	"data.min_count": {config: "csv.toml", with: []string{"model.tables=auto"}, set: []string{"data.min_count=2"}, shows: digest},
	"data.cache":     {config: "csv.toml", set: []string{"data.cache=converted"}, shows: files("converted/*.rec")},
	"data.hots":      {set: []string{"data.hots=[2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"}, shows: digest},
	"data.law": {with: []string{"data.format=synthetic", "data.train=[]", "data.eval=[]", "model.tables=criteo-kaggle", "train.iterations=3"},
		set: []string{"data.law=bursts"}, shows: digest},
	"data.csv.label":       {config: "csv.toml", set: []string{"data.csv.label=label2"}, shows: digest},
	"data.csv.weight":      {config: "csv.toml", set: []string{"data.csv.weight=b"}, shows: digest},
	"data.csv.dense":       {config: "csv.toml", set: []string{`data.csv.dense=["b"]`}, shows: digest},
	"data.csv.categorical": {config: "csv.toml", set: []string{`data.csv.categorical=["d"]`}, shows: digest},
	"data.csv.delimiter": {config: "csv.toml", with: []string{`data.train=["semicolons.csv"]`, "data.eval=[]"},
		set: []string{"data.csv.delimiter=;"}, shows: code},
	"data.csv.na": {config: "csv.toml", with: []string{`data.train=["bad.csv"]`}, set: []string{`data.csv.na=["none"]`}, shows: code},
	"data.csv.separator": {config: "csv.toml", with: []string{`data.train=["bags.csv"]`, `data.eval=["bags.csv"]`},
		set: []string{"data.csv.separator=|"}, shows: digest},
	"data.csv.bags": {config: "csv.toml", with: []string{`data.train=["bags.csv"]`, `data.eval=["bags.csv"]`, "data.csv.separator=|",
		`data.csv.categorical=["c", "d"]`, "model.tables=[9, 9]"}, set: []string{`data.csv.bags=["c"]`}, shows: digest},
	"data.csv.weighted": {config: "csv.toml", with: []string{`data.train=["bags.csv"]`, `data.eval=["bags.csv"]`, "data.csv.separator=|"},
		set: []string{"data.csv.weighted=true"}, shows: digest},
	"data.kafka.columns": {config: "csv.toml", with: fromTopic[:2], set: fromTopic[2:], shows: code},
	"data.kafka.begin":   {config: "csv.toml", with: fromTopic, set: []string{"data.kafka.begin=last"}, shows: code},
	"data.kafka.at_end": {config: "csv.toml", with: append(slices.Clone(fromTopic), "train.global_batch=4"), // which leaves a part of a step
		set: []string{"data.kafka.at_end=wait", "data.kafka.idle=200ms"}, shows: digest},
	"data.kafka.idle": {config: "csv.toml", with: fromTopic, set: []string{"data.kafka.idle=1s"}, shows: refused},

	"model.kind":            {set: []string{"model.kind=wdl"}, shows: digest},
	"model.embedding_dim":   {set: []string{"model.embedding_dim=8", "model.bottom_mlp=[4, 8]"}, shows: digest},
	"model.tables":          {config: "csv.toml", set: []string{"model.tables=[11]"}, shows: digest},
	"model.bottom_mlp":      {set: []string{"model.bottom_mlp=[6, 4]"}, shows: digest},
	"model.top_mlp":         {set: []string{"model.top_mlp=[6, 1]"}, shows: digest},
	"model.interaction":     {set: []string{"model.interaction=cat"}, shows: digest},
	"model.linear":          {with: []string{"model.kind=wdl"}, set: []string{"model.linear=true"}, shows: digest},
	"model.cross":           {with: []string{"model.kind=dcn"}, set: []string{"model.cross=full"}, shows: digest},
	"model.cross_layers":    {with: []string{"model.kind=dcn"}, set: []string{"model.cross_layers=3"}, shows: digest},
	"model.cross_rank":      {with: []string{"model.kind=dcn"}, set: []string{"model.cross_rank=4"}, shows: digest},
	"model.structure":       {with: []string{"model.kind=dcn"}, set: []string{"model.structure=parallel"}, shows: digest},
	"model.batch_norm":      {set: []string{"model.batch_norm=true"}, shows: digest},
	"model.dropout":         {set: []string{"model.dropout=0.9"}, shows: digest},
	"model.dense_embedding": {set: []string{"model.dense_embedding=true"}, shows: refused}, // read by deepfm: TestDeepFM of model
	"model.init_from":       {set: []string{"model.init_from=init.safetensors"}, shows: digest},

	"model.table_of": {config: "csv.toml", with: []string{`data.csv.categorical=["c", "d"]`, "model.tables=[9, 9]"},
		set: []string{`model.table_of=["a", "a"]`, "model.tables=[9]"}, shows: digest},
	"model.pooling": {with: []string{"data.hots=[2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"},
		set: []string{"model.pooling=mean"}, shows: digest},

	"kernels.blas": {set: []string{"kernels.blas=openblas"}, shows: says("openblas")},

	"train.global_batch": {set: []string{"train.global_batch=16"}, shows: digest},
	"train.iterations":   {set: []string{"train.iterations=13"}, shows: digest},
	"train.epochs":       {config: "csv.toml", set: []string{"train.epochs=2"}, shows: digest},
	"train.eval_every":   {config: "csv.toml", set: []string{"train.eval_every=1"}, shows: figure("eval")},
	"train.keep": {config: "csv.toml", with: []string{"train.eval_every=1", "train.epochs=4", "optimizer.dense.lr=9"},
		set: []string{"train.keep=last"}, shows: figure("model_step")},
	"train.best_by": {config: "csv.toml", with: []string{"train.eval_every=1", "train.epochs=4", "optimizer.dense.lr=9"},
		set: []string{"train.best_by=auc"}, shows: figure("model_step")},
	"train.patience": {config: "csv.toml", with: []string{"train.eval_every=1", "train.epochs=4", "optimizer.dense.lr=9"},
		set: []string{"train.patience=1"}, shows: figure("steps")},
	"train.plateau_patience": {config: "csv.toml", with: []string{"train.eval_every=1", "train.epochs=4", "optimizer.dense.lr=9"},
		set: []string{"train.plateau_patience=1"}, shows: digest},
	"train.plateau_factor": {config: "csv.toml", with: []string{"train.eval_every=1", "train.epochs=4", "optimizer.dense.lr=9",
		"train.plateau_patience=1"},
		set: []string{"train.plateau_factor=0.5"}, shows: digest},
	"train.log_every":       {set: []string{"train.log_every=3"}, shows: lines("runs/run/metrics.jsonl")},
	"train.clip_dense":      {set: []string{"train.clip_dense=1e-3"}, shows: digest},
	"train.positive_weight": {set: []string{"train.positive_weight=2"}, shows: digest},
	"train.clip_norm":       {set: []string{"train.clip_norm=1e-3"}, shows: digest},

	"optimizer.dense.kind": {set: []string{"optimizer.dense.kind=adam"}, shows: digest},
	"optimizer.dense.lr":   {set: []string{"optimizer.dense.lr=0.2"}, shows: digest},
	"optimizer.dense.momentum": {with: []string{"optimizer.dense.kind=momentum"},
		set: []string{"optimizer.dense.momentum=0.5"}, shows: digest},
	"optimizer.dense.eps": {with: []string{"optimizer.dense.kind=adagrad"}, set: []string{"optimizer.dense.eps=0.1"}, shows: digest},
	"optimizer.dense.betas": {with: []string{"optimizer.dense.kind=adam"},
		set: []string{"optimizer.dense.betas=[0.5, 0.9]"}, shows: digest},
	"optimizer.dense.beta":         {with: []string{"optimizer.dense.kind=ftrl"}, set: []string{"optimizer.dense.beta=2"}, shows: digest},
	"optimizer.dense.l1":           {with: []string{"optimizer.dense.kind=ftrl"}, set: []string{"optimizer.dense.l1=1e-4"}, shows: digest},
	"optimizer.dense.l2":           {with: []string{"optimizer.dense.kind=ftrl"}, set: []string{"optimizer.dense.l2=0.5"}, shows: digest},
	"optimizer.dense.weight_decay": {set: []string{"optimizer.dense.weight_decay=0.01"}, shows: digest},
	"optimizer.dense.dense":        {set: []string{"optimizer.dense.dense=true"}, shows: refused},
	"optimizer.dense.warmup_steps": {set: []string{"optimizer.dense.warmup_steps=5"}, shows: digest},
	"optimizer.dense.decay_start": {with: []string{"optimizer.dense.decay_steps=5"},
		set: []string{"optimizer.dense.decay_start=5"}, shows: digest},
	"optimizer.dense.decay_steps": {set: []string{"optimizer.dense.decay_steps=5"}, shows: digest},
	"optimizer.sparse.kind":       {set: []string{"optimizer.sparse.kind=adam"}, shows: digest},
	"optimizer.sparse.lr":         {set: []string{"optimizer.sparse.lr=0.2"}, shows: digest},
	"optimizer.sparse.momentum": {with: []string{"optimizer.sparse.kind=momentum"},
		set: []string{"optimizer.sparse.momentum=0.5"}, shows: digest},
	"optimizer.sparse.eps": {set: []string{"optimizer.sparse.eps=0.1"}, shows: digest},
	"optimizer.sparse.betas": {with: []string{"optimizer.sparse.kind=adam"},
		set: []string{"optimizer.sparse.betas=[0.5, 0.9]"}, shows: digest},
	"optimizer.sparse.beta":         {with: []string{"optimizer.sparse.kind=ftrl"}, set: []string{"optimizer.sparse.beta=2"}, shows: digest},
	"optimizer.sparse.l1":           {with: []string{"optimizer.sparse.kind=ftrl"}, set: []string{"optimizer.sparse.l1=1e-4"}, shows: digest},
	"optimizer.sparse.l2":           {with: []string{"optimizer.sparse.kind=ftrl"}, set: []string{"optimizer.sparse.l2=0.5"}, shows: digest},
	"optimizer.sparse.weight_decay": {set: []string{"optimizer.sparse.weight_decay=0.01"}, shows: digest},
	"optimizer.sparse.dense": {with: []string{"optimizer.sparse.kind=adam"}, set: []string{"optimizer.sparse.dense=true"},
		shows: digest},
	"optimizer.sparse.warmup_steps": {set: []string{"optimizer.sparse.warmup_steps=5"}, shows: digest},
	"optimizer.sparse.decay_start": {with: []string{"optimizer.sparse.decay_steps=5"},
		set: []string{"optimizer.sparse.decay_start=5"}, shows: digest},
	"optimizer.sparse.decay_steps": {set: []string{"optimizer.sparse.decay_steps=5"}, shows: digest},

	// The rows of dlrm have no linear weights. Their effect: TestLinearRule of train.
	"optimizer.linear.kind":         {set: []string{"optimizer.linear.kind=adam"}, shows: refused},
	"optimizer.linear.lr":           {set: []string{"optimizer.linear.lr=0.2"}, shows: refused},
	"optimizer.linear.momentum":     {set: []string{"optimizer.linear.momentum=0.5"}, shows: refused},
	"optimizer.linear.eps":          {set: []string{"optimizer.linear.eps=0.1"}, shows: refused},
	"optimizer.linear.betas":        {set: []string{"optimizer.linear.betas=[0.5, 0.9]"}, shows: refused},
	"optimizer.linear.beta":         {set: []string{"optimizer.linear.beta=2"}, shows: refused},
	"optimizer.linear.l1":           {set: []string{"optimizer.linear.l1=0.001"}, shows: refused},
	"optimizer.linear.l2":           {set: []string{"optimizer.linear.l2=0.5"}, shows: refused},
	"optimizer.linear.weight_decay": {set: []string{"optimizer.linear.weight_decay=0.01"}, shows: refused},
	"optimizer.linear.dense":        {set: []string{"optimizer.linear.dense=true"}, shows: refused},
	"optimizer.linear.warmup_steps": {set: []string{"optimizer.linear.warmup_steps=5"}, shows: refused},
	"optimizer.linear.decay_start":  {set: []string{"optimizer.linear.decay_start=5"}, shows: refused},
	"optimizer.linear.decay_steps":  {set: []string{"optimizer.linear.decay_steps=5"}, shows: refused},

	"collectives.transport": {with: []string{"job.ranks=2"}, args: []string{"--np", "2"},
		set: []string{"collectives.transport=mem"}, shows: refused},
	"collectives.deterministic": {with: []string{"job.device=cpu"}, set: []string{"collectives.deterministic=false"},
		shows: refused}, // on GPUs: TestNCCL of collectives
	"oracle.lookahead": {with: []string{"job.ranks=2", "cache.mode=lrpp"}, set: []string{"oracle.lookahead=2"},
		shows: figure("cache")},
	"cache.mode":         {with: []string{"job.ranks=2"}, set: []string{"cache.mode=none"}, shows: figure("cache")},
	"cache.max_bytes":    {with: []string{"job.ranks=2", "cache.mode=lrpp"}, set: []string{"cache.max_bytes=64"}, shows: code},
	"cache.delayed_sync": {with: []string{"job.ranks=2"}, set: []string{"cache.delayed_sync=false"}, shows: figure("cache")},

	"ranks.servers":  {with: []string{"ranks.trainers=2", "ranks.servers=1"}, set: []string{"ranks.servers=2"}, shows: figure("ranks")},
	"ranks.trainers": {with: []string{"ranks.servers=1", "ranks.trainers=1"}, set: []string{"ranks.trainers=2"}, shows: digest},
	"ranks.readers":  {with: []string{"job.ranks=3"}, set: []string{"ranks.readers=1"}, shows: digest},

	"ec.code":         {with: []string{"job.ranks=5"}, set: []string{"ec.code=xor"}, shows: figure("ec")},
	"ec.k":            {with: []string{"job.ranks=6", "ec.code=xor", "ec.k=2"}, set: []string{"ec.k=5"}, shows: figure("ec.memory_bytes")},
	"ec.r":            {with: []string{"job.ranks=12", "ec.code=rs", "ec.k=2"}, set: []string{"ec.r=2"}, shows: figure("ec.memory_bytes")},
	"ec.commit_every": {with: []string{"job.ranks=5", "ec.code=xor"}, set: []string{"ec.commit_every=2"}, shows: figure("ec.journal_bytes")},
	"ec.rebuild_rate": {with: []string{"ec.code=xor", "ec.k=2", "train.global_batch=99", "ec.rebuild_rate=1", "model.embedding_dim=8",
		"model.bottom_mlp=[8]", "model.tables=[" + strings.Repeat("900, ", 25) + "900]", "ec.commit_every=2"}, args: []string{"--np", "3", "--chaos", "kill:1@7"},
		set: []string{"ec.rebuild_rate=max"}, shows: figure("recoveries.0.rebuild_steps")},

	"elastic.spares": {with: []string{"ec.code=xor", "ec.k=2"}, args: []string{"--np", "3"},
		set: []string{"elastic.spares=1"}, shows: says("1 spare")},
	"elastic.max_restarts": {with: []string{"ec.code=xor", "ec.k=2"}, args: []string{"--np", "3", "--chaos", "kill:1@5"},
		set: []string{"elastic.max_restarts=0"}, shows: code},
	"elastic.heartbeat": {with: []string{"ec.code=xor", "ec.k=2"},
		args: []string{"--np", "3", "--chaos", "stop:1@5:1500ms"}, set: []string{"elastic.heartbeat=20s"}, shows: figure("recoveries")},
	"elastic.standby": {with: []string{"ec.code=xor", "ec.k=2", "ec.commit_every=2", "train.iterations=200"},
		args: []string{"--np", "3", "--chaos", "kill:1@60:steady"}, set: []string{"elastic.standby=false"}, shows: logs("process-1.log", `"standby":true`)},

	"store.tier":       {set: []string{"store.tier=file", "store.dram_bytes=1MiB"}, shows: files("runs/*/store/*/*")},
	"store.path":       {set: []string{"store.path=rows"}, shows: files("rows/*/*")},
	"store.dram_bytes": {set: []string{"store.dram_bytes=1GiB"}, shows: refused},
	"checkpoint.dir":   {set: []string{"checkpoint.dir=ck"}, shows: files("ck/*/*")},
	"checkpoint.every": {with: []string{"checkpoint.dir=ck"}, set: []string{"checkpoint.every=4"}, shows: files("ck/*/*")},
	"checkpoint.kind": {with: []string{"checkpoint.dir=ck", "checkpoint.every=2", "checkpoint.keep=1"},
		set:   []string{"checkpoint.kind=incremental"},
		shows: files("ck/*/*")},
	"checkpoint.keep": {with: []string{"checkpoint.dir=ck", "checkpoint.every=4"}, set: []string{"checkpoint.keep=1"},
		shows: files("ck/*/*")},
	"stream.to":           {set: []string{"stream.to=file:rows"}, shows: files("rows/*/*")},
	"stream.backlog":      {set: []string{"stream.backlog=0"}, shows: refused},
	"metrics.listen":      {set: []string{"metrics.listen=127.0.0.1:0"}, shows: lines("runs/run/process-0.log")},
	"metrics.textfile":    {set: []string{"metrics.textfile=m.prom"}, shows: files("m.prom")},
	"metrics.tensorboard": {set: []string{"metrics.tensorboard=true"}, shows: files("runs/run/tensorboard/*/*")},
}

const keyFiles = `
-- run.toml --
[data]
format = "synthetic"
[model]
embedding_dim = 4
tables = [90, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]
bottom_mlp = [4]
top_mlp = [4, 1]
[train]
global_batch = 24
iterations = 12
-- csv.toml --
[job]
name = "run"
[data]
format = "csv"
train = ["train.csv"]
eval = ["eval.csv"]
[data.csv]
label = "label"
dense = ["a"]
categorical = ["c"]
[model]
embedding_dim = 4
tables = [9]
bottom_mlp = [4]
top_mlp = [4, 1]
[train]
global_batch = 2
epochs = 1
-- bags.csv --
label,a,c,d
0,1,x|y:0.5,p|q
1,2,y|z:2|x,q
0,3,,p|r
1,4,x,r
-- train.csv --
label,label2,a,b,c,d
0,1,1,5,x,q
1,0,2,6,y,r
1,1,3,7,z,s
0,0,4,8,x,t
0,1,5,9,w,u
1,0,6,1,y,v
-- eval.csv --
label,label2,a,b,c,d
0,1,1,5,x,q
1,0,7,6,y,r
-- other.csv --
label,label2,a,b,c,d
1,1,9,5,x,q
0,0,2,6,v,r
1,1,3,2,z,s
-- bad.csv --
label,label2,a,b,c,d
0,1,none,5,x,q
1,0,2,6,y,r
-- semicolons.csv --
label;label2;a;b;c;d
0;1;1;5;x;q
1;0;2;6;y;r
`
