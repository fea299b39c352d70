package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutate = flag.Bool("mutations", false, "build and run all mutations in TestMutations, not only a sample")

// mutation is a broken protocol step: replacements of texts in one file. Runs from a seed
// on must notice it soon, or the test of the file's package that how names.
type mutation struct {
	name, file string
	change     []string // old, new, old, new ...
	seed       uint64
	how        string // Safety, Liveness, the focus of the runs, or a test in place of them; empty: the seed draws all
}

var mutations = []mutation{
	{"a moved rank continues a partition that ended before the commit", "stream/log.go",
		[]string{"l.tail.to >= step", "l.tail.to >= 0"}, 100, ""},
	{"a rebuilt rank sends only the rows that it writes", "store/sink.go", []string{"	s.losses, s.all = 0, lost\n", "	s.losses, " +
		"s.all = 0, false\n"}, 1, ""},
	{"a merged epoch keeps the older rows", "store/epoch.go",
		[]string{"old.slots[k] < e.slots[i]", "old.slots[k] <= e.slots[i]", "		slots, rows = append(slots, e.slots[i])",
			"		if len(slots) > 0 && slots[len(slots)-1] == e.slots[i] {\n			i++\n			continue\n		}\n		slots, rows = append(slots, e.slots[i])"}, 1, ""},
	{"a new rank does not know the lineage of the stream", "train/digests.go", []string{"		binary.LittleEndian.PutUint64(r.lineage.Lineage[:8], all[root][n-2])\n", ""}, 1, ""},
	{"a new rank reports its log in another step than the others", "train/protection.go", []string{"	p.log.sent = unsent // new ranks have sent none: all " +
		"report in the first status\n", ""}, 60, ""},
	{"a rank that is rebuilt after the last seal sends nothing", "train/streaming.go", []string{"	x.store.Complete(x.protection.rank.done)\n", ""}, 1, ""},
	{"an epoch that the topic has lost is not noticed", "stream/chain.go", []string{"h.from > c.at.Step:", "h.from > c.at.Step && " +
		"h.from < 0:"}, 29, ""},
	{"a frame that the topic has lost is not noticed", "stream/chain.go", []string{"h.number > a.next:", "h.number > a.next && " +
		"a.next > 99:"}, 1200, ""},
	{"frames that are there twice are taken twice", "stream/chain.go", []string{"isOf && h.number < a.next:", "isOf && h.number < " +
		"a.next && h.number > 99:"}, 560, ""},
	{"epochs that are there twice are taken twice", "stream/chain.go",
		[]string{"h.kind != kindAbout && h.to <= c.at.Step:", "h.kind != kindAbout && h.to < 0:"}, 6, ""},
	{"a cut has epochs that end at different steps", "stream/merge.go", []string{"x.Lineage == e.Lineage && x.To == e.To", "x.Lineage == e.Lineage && x.To >= e.To"}, 8, ""},
	{"a restarted follower reads the topic from its beginning", "follow/run.go", []string{"			o.At = f.model.at\n", "			o.At = nil\n"}, 6, ""},
	{"a topic is trimmed before its base is written", "follow/base.go", []string{"	err := f.bases.Write(", "	if err := trimTo(f.o.Topic, m.at); err != nil {\n		return err\n	}\n	err := f.bases.Write("}, 1, ""},
	{"a base has a position behind the next epoch", "stream/base.go", []string{"	place, err := json.Marshal(x.At[h.rank])\n",
		"	at := x.At[h.rank]\n	at.Next++\n	place, err := json.Marshal(at)\n"}, 1, ""},
	{"a follower notes its positions after it has published a checkpoint", "follow/save.go", []string{"		err = f.notePositions(planned)\n", "		_ = planned\n",
		"err == nil && name != planned {", "err == nil {"}, 41, ""},
	{"a rank that is rebuilt after the last seal gives a broker less time", "store/all.go", []string{"tryBegin(step, s.endFor())", "tryBegin(step, beginFor)"}, 0, "TestLastRowsWaitForTheBroker"},
	{"a pre-image is skipped", "shard/journal.go",
		[]string{"fresh += int(^*word >> at & 1)", "if slot%3 != 1 {\nfresh += int(^*word >> at & 1)\n}"}, 2, ""},
	{"a rollback keeps the current epoch", "shard/preimage.go",
		[]string{"append(slices.Clone(j.sealed[keep:]), j.active)", "slices.Clone(j.sealed[keep:])"}, 2, ""},
	{"epochs are undone oldest first", "shard/preimage.go",
		[]string{"for i := len(undone) - 1; i >= 0; i-- {", "for i := range undone {"}, 5, ""},
	{"the newest epoch supplies a row's value at the commit", "shard/preimage.go",
		[]string{"for k := 0; k <= len(j.sealed); k++ {", "for k := len(j.sealed); k >= 0; k-- {"}, 12, ""},
	{"parities are folded before the commit", "commit/parity.go", []string{"			if a.kind == fold {\n				p.foldStaged(s)\n			}\n", "", "	p.arrived.Store(s.step)\n	return", "	p.foldStaged(s)\n	p.arrived.Store(s.step)\n	return"}, 5, ""},
	{"a delta is dropped", "commit/parityrows.go",
		[]string{"if p.isUnbuilt(at) {\n			continue", "if p.isUnbuilt(at) || slot%5 == 2 {\n			continue"}, 2, ""},
	{"a new rank treats its parities as built", "train/rollback.go",
		[]string{"p.commits.Begin(w.committed, false)", "p.commits.Begin(w.committed, true)"}, 5, ""},
	{"an epoch counts as prepared before its deltas have arrived", "commit/parity.go", []string{"	received, err := " +
		"p.background.exchangeCounts(p.out.perRank", "	p.arrived.Store(s.step)\n	received, err := p.background.exchangeCounts(p.out.perRank"}, 2, ""},
	{"staged deltas survive a rollback", "commit/holder.go", []string{"		for _, step := range h.epochs {\n			do = append(do, " +
		"action{drop, step})\n		}\n		*h = holder{prepared: e.step, epochs: h.epochs[:0]}\n", "		h.prepared = e.step\n"}, 5, ""},
	{"the prepared step survives a rollback", "commit/parity.go", []string{"	p.carryOut(event{kind: rolled, step: " +
		"step})\n	p.arrived.Store(step)\n	p.committed = step\n}\n\n// carryOut", "	p.carryOut(event{kind: rolled, step: " +
		"step})\n	p.committed = step\n}\n\n// carryOut"}, 5, ""},
	{"lost rows are decoded from uncommitted rows", "commit/round.go", []string{"h.ReadCommitted(", "h.ReadRows("}, 5, ""},
	{"the survey misses rows", "commit/rebuild.go", []string{"	return set\n", "	for i := range set { // stripes 1, 5, 9 " +
		"...\n		set[i] &^= 0x2222222222222222\n	}\n	return set\n"}, 5, ""},
	{"the largest prepared epoch is committed", "commit/decision.go",
		[]string{"least = min(least, prepared)", "least = max(least, prepared)"}, 9, ""},
	{"only the last rank reports losses", "train/protection.go", []string{"slices.ContainsFunc(p.rank.conns.ctl.last, func(s " +
		"status) bool { return s.degraded })", "slices.ContainsFunc(p.rank.conns.ctl.last[len(p.rank.conns.ctl.last)-1:], func(s " +
		"status) bool { return s.degraded })"}, 5, ""},
	{"caches are not written back before a seal", "train/protection.go", []string{"	if err := r.conns.exchange.Settle(); err != nil " +
		"{\n		return err\n	}\n	return p.sealEpoch(r.done)", "	return p.sealEpoch(r.done)"}, 5, ""},
	{"the snapshot of the commit is dropped", "train/snapshot.go", []string{"if x.step >= step {", "if x.step > step {"}, 2, ""},
	{"rows are read before they are rebuilt", "train/rebuild.go", []string{"err = p.parity.Round(slots, n)", "err = p.parity.Round(nil, n)"}, 5, ""},
	{"an evaluation reads rows before they are rebuilt", "train/loop.go",
		[]string{"			if err := r.protection.finishRebuild(); err != nil {\n				return err\n			}\n", ""}, 29, ""},
	{"dense weights are not rolled back", "train/rollback.go", []string{"		r.s.Copy(params.Weights, mine.weights)\n", ""}, 2, ""},
	{"dense state is not rolled back", "train/rollback.go", []string{"		r.s.Copy(r.state, mine.state)\n", ""}, 2, ""},
	{"the history is not rolled back", "train/rollback.go", []string{"r.history.upTo(committed)", "r.history.upTo(r.done)"}, 44, ""},
	{"only the first rank reports the committed step", "train/rollback.go",
		[]string{"state.committed = max(state.committed, int64(w[1]))", "state.committed = max(state.committed, int64(all[0][1]))"}, 5, ""},
	{"only trainers keep the dense part", "train/job.go",
		[]string{"return id <= j.tolerated() }", "return j.roles.isTrainer(id) && id <= j.tolerated() }"}, 89, ""},
	{"an epoch is sealed during updates", "lrpp/exchange.go", []string{"	if err := x.delayed.waitJob(); err != nil {\n		return " +
		"err\n	}\n	if err := x.critical", "	if err := x.between(st.number); err != nil {\n		return err\n	}\n	if err := x.delayed.waitJob(); " +
		"err != nil {\n		return err\n	}\n	if err := x.critical",
		"	if err := x.between(st.number); err != nil { // while that is being sent\n		return err\n	}\n", ""}, 19, ""},
	{"deltas of an epoch are folded twice", "commit/parity.go",
		[]string{"				p.foldStaged(s)\n", "				p.foldStaged(s)\n				p.foldStaged(s)\n"}, 1, ""},
	{"memory of staged deltas is never reused", "commit/parity.go",
		[]string{"if n := len(p.idle); n > 0 {", "if n := len(p.idle); n > 9 {"}, 1, ""},
	{"memory of pre-images is never reused", "shard/journal.go",
		[]string{"if n := len(j.idle); n > 0 {", "if n := len(j.idle); n > 9 {"}, 1, ""},
	{"snapshots are never dropped", "train/snapshot.go", []string{"if x.step >= step {", "if x.step >= 0 {"}, 1, ""},
	{"the models kept are forgotten in a recovery", "train/history.go", []string{"past.Kept = append(past.Kept, k)", "_ = k"}, 5, ""},
	{"a restarted rank reports no loss", "train/rollback.go", []string{"loss = r.job.lossOfNew(id)", "_ = r.job.lossOfNew(id)"}, 5, ""},
	{"a restarted rank counts as trained", "train/protection.go",
		[]string{"&protection{rank: r,", "&protection{phase: phaseTraining, rank: r,"}, 1, ""},
	{"a loss counts once for two ranks of a process", "train/rollback.go", []string{"		state.lost = append(state.lost, loss)\n", "		if id > 0 && phase(w[0]) == phaseNew && state.lost[id-1].Rows > 0 {\n			loss.Rows = 0\n		}\n		state.lost = append(state.lost, loss)\n"}, 24, ""},
	{"a duplicated frame is accepted", "transport/inbound.go", []string{" || h.sequence != in.sequence", ""}, 1, duplicatePacket},
	{"a corrupt payload is accepted", "transport/inbound.go", []string{"got != in.h.sum", "got != in.h.sum && n < 0"}, 1, corruptPacket},
	{"a corrupt header is accepted", "transport/frame.go", []string{"got != want {", "got != want && b[0] == 0 {"}, 1, corruptPacket},
	{"the exchange of an old world is not closed", "train/connections.go", []string{"	g.base.Close()\n", ""}, 1, ""},
	{"a row that the previous step updates is fetched early", "oracle/admit.go",
		[]string{"later[i>>6] |= 1 <<", "later[i>>6] |= 0 <<"}, 5, ""},
	{"new ranks start from scratch although no rank has the commit", "train/rollback.go",
		[]string{"case (has[phaseJoining] || r.job.world.Trained) && !has[phaseBegun]:", "case false:"}, 67, Safety},
	{"a job that lost all workers starts from scratch", "train/rollback.go",
		[]string{"(has[phaseJoining] || r.job.world.Trained) &&", "has[phaseJoining] &&"}, 67, Safety},
	{"commits end before the exchange that rebuilds rows", "train/connections.go",
		[]string{"	g.base.Close()\n	r.protection.leaveWorld()\n", "	r.protection.leaveWorld()\n	g.base.Close()\n"}, 517, ""},
	{"a rank with a received commit counts as new", "train/rollback.go",
		[]string{"	if err == nil {\n		p.phase = phaseTraining\n	}\n", ""}, 734, ""},
	{"an interrupted restore of a checkpoint is forgotten", "train/restore.go",
		[]string{"p.phase, p.fatal = phaseRestoring, fatal", "p.fatal = fatal"}, 0, "TestLossDuringRestore"},
	{"rows from before a restored checkpoint stay", "train/restore.go", []string{"	r.shard.Reset()\n", ""}, 192, Safety},
	{"commits from before a restored checkpoint stay", "train/restore.go",
		[]string{"	if err := p.commits.Clear(); err != nil {\n		return err\n	}\n", ""}, 1, Safety},
	{"snapshots from before a restored checkpoint stay", "train/protection.go",
		[]string{"	p.snapshots.dropAll() // those of a run before restoreFromCheckpoint\n", ""}, 1, Safety},
	{"parities of a checkpoint count as built", "train/protection.go",
		[]string{"drawn := r.done == 0 && r.job.cfg.Model.InitFrom == \"\"", "drawn := true"}, 1, Safety},
	{"the dense part is rolled back to the newest snapshot", "train/snapshot.go",
		[]string{"s.kept[i].step == step", "s.kept[i].step >= step"}, 5, ""},
	{"training resumes after the commit", "train/rollback.go",
		[]string{"r.done, r.checkpoints.saved, r.evaluated = w.committed,", "r.done, r.checkpoints.saved, r.evaluated = w.hit-1,"}, 2, ""},
	{"a committed epoch is trained again", "train/rollback.go", []string{"r.done, r.checkpoints.saved, r.evaluated = w.committed,", "r.done, r.checkpoints.saved, r.evaluated = max(0, w.committed-int64(r.job.cfg.EC.CommitEvery)),"}, 5, ""},
	{"an evaluation in the history is repeated", "train/rollback.go",
		[]string{"		r.evaluated = max(r.evaluated, e.Step)\n", "		_ = e\n"}, 75, ""},
	{"only rank 0 keeps the losses", "train/job.go", []string{"return id == 0 || j.coded() && j.keepsSnapshots(id)", "return id == 0"}, 5, ""},
	{"servers' snapshots of the dense part are old", "train/protection.go", []string{"func (p *protection) sealEpoch(step int64) " +
		"error {\n	if err := p.shareDense(); err != nil {\n		return err\n	}\n", "func (p *protection) sealEpoch(step int64) error {\n"}, 89, ""},
	{"the job ends before all rows are rebuilt", "train/loop.go",
		[]string{"		if err := r.protection.finishRebuild(); err != nil {\n			return err\n		}\n", ""}, 44, ""},
	{"rows of the first step after a recovery are read before they are rebuilt", "lrpp/exchange.go", []string{"		if x.isRebuilding() {\n			if err := x.rebuildFor(st.Early.Slots", "		if false {\n			if err := x.rebuildFor(st.Early.Slots"}, 9, ""},
	{"the first rows that a cache fetches are read before they are rebuilt", "lrpp/cache.go", []string{"		if c.x.isRebuilding() " +
		"{\n			if err := c.x.rebuildFor(st.cache.early.slots", "		if false {\n			if err := c.x.rebuildFor(st.cache.early.slots"}, 5, ""},
	{"early rows are sent before they are rebuilt", "lrpp/exchange.go",
		[]string{"	rebuild := next != nil && x.isRebuilding()\n", "	rebuild := next != nil && x.isRebuilding() && x.step%2 == 0\n"}, 25, ""},
	{"a row is evicted from a cache before its last update", "lrpp/cache.go", []string{"	d := &c.delayed\n	if err := " +
		"d.sendGradients(&u.plan.later, u.sums)", "	d := &c.delayed\n	if err := d.evictRows(&u.plan.evictLater); err != nil " +
		"{\n		return err\n	}\n	if err := d.sendGradients(&u.plan.later, u.sums)", "	return d.evictRows(&u.plan.evictLater)\n", "	return nil\n"}, 1, ""},
	{"a rank sends deltas while it seals the next epoch", "commit/committer.go", []string{"	if err := c.waitForSinks(); err != nil " +
		"{\n		return err\n	}\n	if err := c.o.Reach.reachPoint(step, probe.Delivered)", "	if err := c.o.Reach.reachPoint(step, " +
		"probe.Delivered)"}, 1, ""},
	{"an epoch is committed without a barrier", "commit/committer.go",
		[]string{"	if err := c.comm.Barrier().Wait(); err != nil {\n		return err\n	}\n", ""}, 44, ""},
	{"two epochs are sealed at once", "commit/owner.go", []string{"const maxSealed = 1", "const maxSealed = 2"}, 21, ""},
	{"an epoch that waits for room is never sealed", "commit/owner.go",
		[]string{"		return o.sealWaiting(o.commitUpTo(e.step))", "		return o.commitUpTo(e.step)"}, 1, ""},
	{"a rollback stops at the sealed epoch", "commit/committer.go",
		[]string{"c.o.Shard.Rollback(0)", "c.o.Shard.Rollback(min(1, c.o.Shard.Journal().Sealed()))"}, 5, ""},
	{"a prepared rank does not advance to the commit", "commit/holder.go", []string{"		do = h.foldUpTo(e.step)\n		for", "		for"}, 19, ""},
	{"arrived deltas are not counted when a world ends", "commit/parity.go",
		[]string{"func (p *Parity) Roll(step int64) {\n	p.Prepared()\n", "func (p *Parity) Roll(step int64) {\n"}, 47, ""},
	{"rows read for encoding are not marked", "commit/round.go",
		[]string{"				p.markRead(int64(asked[i].at), of.decoder.Reads[k])\n", "				_ = i\n"}, 12, ""},
	{"folded rows are not marked", "commit/parityrows.go", []string{"		if p.places == nil || p.places[at]&markedAll == 0 {\n", "		if false {\n"}, 5, ""},
	{"a lost parity row counts as marked", "commit/parityrows.go", []string{"			p.places[at] &^= markedAll\n", "			_ = at\n"}, 0, "TestMarkedAll"},
	{"a row that a rollback makes its init again counts as written", "shard/preimage.go", []string{"			h.packed.unmark(slot)\n", ""}, 1, ""},
	{"the delta of a row is that of the row at its slot", "shard/journal.go", []string{"h.packed.appendPlaces(e.where[:n], h.journal.fresh)", "append(e.where[:n], h.journal.fresh...)"}, 1, ""},
	{"rows count as rebuilt when they are requested", "commit/round.go", []string{"	x.urgent, b.onDemand = urgent,", "	for _, slot " +
		":= range urgent {\n		b.missing.set(int64(slot))\n		b.setPresent(int64(slot))\n	}\n	urgent = urgent[:0]\n	x.urgent, b.onDemand " +
		"= urgent,"}, 29, ""},
	{"deltas of an old world are sent in the next", "train/connections.go", []string{"	r.protection.leaveWorld()\n", ""}, 1, ""},
	{"an endpoint is not closed", "train/connections.go", []string{"	_ = g.ep.Close()\n", ""}, 1, ""},
	{"connections of an older world are accepted", "transport/handshake.go",
		[]string{"	case theirs.generation != w.generation:", "	case theirs.generation > w.generation:"}, 324, ""},
	{"the register accepts two worlds of one generation", "sim/register.go",
		[]string{"w.generation != r.world.generation+1 || r.over", "w.generation < r.world.generation || r.over"}, 4, ""},
	{"a replaced worker is not fenced", "sim/host.go",
		[]string{"w.slots[number].incarnation != p.incarnation)", "p.Dead && w.slots[number].incarnation != p.incarnation)"}, 100, ""},
	{"rows that are written during a save are not in the next increment", "shard/written.go",
		[]string{"	w.taken, w.spare = nil, w.taken", "	clear(w.bits)\n	w.taken, w.spare = nil, w.taken"}, 2, Safety},
	{"parents are removed", "checkpoint/folder.go", []string{"			needed[at.Parent.Name] = true", "			_ = at"}, 2, Safety},
	{"a rank saves an increment although another one cannot", "train/saving.go",
		[]string{"!slices.ContainsFunc(all, func(m []uint64) bool { return m[0] == 0 }), err", "mine == 1 && len(all) > 0, err"}, 2, Safety},
	{"rows that are written before a save has copied them are not kept", "shard/journal.go",
		[]string{"	h.hold.pin.putAside(h, slots)\n", ""}, 3, Liveness},
	{"a save copies rows that are written after its step", "shard/pin.go",
		[]string{"if place := p.placeOf(slot); place >= 0 {", "if place := p.placeOf(slot); place >= 0 && slot%2 == 0 {"}, 3, Liveness},
	{"a checkpoint gets its name before all ranks have written their part", "train/control.go",
		[]string{"d.saved = d.saved && s.saved", "d.saved = s.saved"}, 3, Liveness},
	{"a save outlives its world", "train/connections.go", []string{"	r.checkpoints.lose()\n", ""}, 3, Liveness},
	{"rows count as logged at once", "shard/frames.go",
		[]string{"f.policy.Logged(mark)", "f.policy.Logged(f.mark)"}, 1, Safety},
	{"rows that are replaced keep their old bytes on the disk", "shard/frames.go",
		[]string{"slots, f.list, a != forRead, &f.moves)", "slots, f.list, a == forUpdate, &f.moves)"}, 1, Safety},
	{"rows that were read ahead are used after they were written", "shard/frames.go", []string{"				f.ahead.forget(r.Slot)\n", "				_ = r\n"},
		1, Safety},
	{"a rank ends an epoch early without the others", "train/storing.go",
		[]string{"slices.ContainsFunc(last, func(s status) bool { return s.dirty })", "last[l.protection.rank.id].dirty"}, 1, Safety},
	{"rows of a log count as fresh", "shard/raw.go", []string{"	h.frames.policy.Stored(slots)\n", ""}, 1, Safety},
	{"rows count as logged when they are sealed", "store/store.go",
		[]string{"s.readable = max(s.readable, e.mark)", "s.readable = max(s.readable, s.o.Shard.Mark())"}, 1, Safety},
	{"epochs that are held lose their rows", "store/held.go", []string{"	newer.mergeOlder(older, rowBytes)\n", ""}, 1, Safety},
	{"a rebuilt rank does not write all its rows", "store/sink.go",
		[]string{"s.losses, s.all = 0, lost", "s.losses, s.all = 0, false"}, 1, Safety},
	{"a stream that was opened late lacks the sets before", "store/reopen.go",
		[]string{"s.log == nil && !s.missed && c.Continues", "s.log == nil && c.Continues"}, 9, ""},
	{"a commit has the newest place in the topic", "train/input.go", []string{"if at := in.placeAt(step); at != nil {\n",
		"if at := &in.At[len(in.At)-1]; true {\n		at.Step = step\n"}, 1, Liveness},
	{"the turn is not part of the place in a topic", "train/feed/topic.go", []string{"turn: int(t.From.Turn)", "turn: 0"}, 1, Liveness},
	{"messages that are returned again are trained again", "train/feed/topic.go",
		[]string{"len(p.records) > 0 && p.records[0].Offset < p.next {", "false {"}, 1, ""},
	{"two hosts run one process", "sim/world.go", []string{"		w.spares = w.spares[1:]\n", ""}, 8, ""},
	{"a host without a lease keeps its worker", "sim/host.go",
		[]string{"	case now-h.lastAnswered > h.c.leaseTime()-h.c.heartbeatTime():\n		p.killProcess()\n", ""}, 3, ""},
	{"a restarted process keeps its incarnation", "sim/host.go",
		[]string{"			because(\"process %d died\", p)\n			s.incarnation++\n", "			because(\"process %d died\", p)\n"}, 1, ""},
	{"a process done in one world counts as done in the next", "sim/register.go",
		[]string{"	if generation != r.world.generation {\n		return\n	}\n", ""}, 278, ""},
}

var soon = flag.Int("soon", 100, "number of runs within which TestMutations must notice a mutation")

// some is a sample of the mutations, which every test run builds.
var some = map[string]bool{"a pre-image is skipped": true, "the register accepts two worlds of one generation": true}

// Every mutation is noticed.
func TestMutations(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			mutant := m.text(t, root)
			if *mutate || some[m.name] && !testing.Short() {
				m.check(t, root, mutant)
			}
		})
	}
}

// text returns the mutated file.
func (m *mutation) text(t *testing.T, root string) string {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	mutant := string(text)
	for i := 0; i < len(m.change); i += 2 {
		if n := strings.Count(mutant, m.change[i]); n != 1 {
			t.Fatalf("%s has %q %d times, not once: the mutation is out of date", m.file, m.change[i], n)
		}
		mutant = strings.Replace(mutant, m.change[i], m.change[i+1], 1)
	}
	return mutant
}

// failedSeed matches a failure that TestRuns reports.
var failedSeed = regexp.MustCompile(`seed (\d+): (.*)`)

// check builds this package's tests with the mutated file, and runs them.
func (m *mutation) check(t *testing.T, root, mutant string) {
	dir := t.TempDir()
	over := filepath.Join(dir, "mutant.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, m.file): over}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{over: mutant, filepath.Join(dir, "overlay.json"): string(overlay)} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasPrefix(m.how, "Test") {
		one := exec.Command("go", "test", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-timeout", "1m", "-run", "^"+m.how+"$",
			"./"+filepath.Dir(m.file))
		one.Dir = root
		if out, err := one.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: "+m.how) {
			t.Fatalf("%s does not notice the mutation: %v\n%s", m.how, err, out)
		}
		return
	}
	runs := []string{"-test.run", "^TestRuns$", "-seed", fmt.Sprint(m.seed), "-runs", fmt.Sprint(*soon), "-first"}
	if m.how == Safety || m.how == Liveness {
		runs = append(runs, "-mode", m.how)
	} else {
		runs = append(runs, "-focus", m.how)
	}
	bin := filepath.Join(dir, "mutant.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin, "./sim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin, runs...).CombinedOutput()
	found := failedSeed.FindSubmatch(out)
	if err == nil || found == nil {
		t.Fatalf("%d runs from seed %d on do not notice the mutation: %v\n%s", *soon, m.seed, err, out)
	}
	t.Logf("seed %s: %s", found[1], found[2])
}
