package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
	kafkatopic "github.com/ecrec/ecrec/stream/kafka"
)

// compareEnd checks that the follower, and a new one, get the last model of the run. The new one reads the topic from its
// beginning, or from its newest base, and ends at a gap.
func (x *followedRun) compareEnd(t *testing.T) {
	t.Helper()
	every := "10ms" // the topic of a short run is read within tenths of a second
	if *soak {
		every = "100ms"
	}
	last := stepFolder(x.steps)
	for _, dir := range []string{x.made, filepath.Join(t.TempDir(), "fresh")} {
		got := run(t, ecrec(t), nil, "follow", x.to, "--to", dir, "--every", every, "--at", strconv.Itoa(x.steps))
		if got.code != 0 {
			t.Fatalf("%s: %s\n%s", x.name, got.stderr, got.stdout)
		}
		notePublished(t, x.published, got.stdout)
		expectSame(t, filepath.Join(dir, last), filepath.Join(x.out, "checkpoints", last))
	}
}

// eventsOf returns the text of a run's events, empty before the first.
func eventsOf(t *testing.T, out string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "events.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// countEvents counts the events of some kinds in the folder of a run.
func countEvents(t *testing.T, out string, kinds ...string) (n int) {
	t.Helper()
	text := eventsOf(t, out)
	for _, kind := range kinds {
		n += strings.Count(text, fmt.Sprintf(`"event":%q`, kind))
	}
	return n
}

var (
	// savedLine is the line of a follower that has saved a checkpoint.
	savedLine   = regexp.MustCompile(`(?m) saved \S*step-(\d+)\S*, digest ([0-9a-f]{32})$`)
	resumeEvent = regexp.MustCompile(`"event":"resume","step":(\d+)`)
)

// notePublished adds the digests of the checkpoints that a follower has saved, by step.
func notePublished(t *testing.T, published map[int64]string, output string) {
	t.Helper()
	for _, m := range savedLine.FindAllStringSubmatch(output, -1) {
		step, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if was := published[step]; was != "" && was != m[2] {
			t.Errorf("followers saved step %d with the digests %s and %s", step, was, m[2])
		}
		published[step] = m[2]
	}
}

// comparePublished compares the digests of followers' checkpoints with those that the run noted at its commits. One that is not of the
// last step must be among them. A run that was killed may not have noted its last commits.
func comparePublished(t *testing.T, name string, published map[int64]string, out string, last int64) {
	t.Helper()
	noted := map[int64]string{}
	for line := range strings.Lines(eventsOf(t, out)) {
		var e struct {
			Event  string
			Step   int64
			Digest string
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Event != "commit" { // a line may be torn
			continue
		}
		if was := noted[e.Step]; was != "" && was != e.Digest {
			t.Errorf("%s: the run noted the digests %s and %s of step %d", name, was, e.Digest, e.Step)
		}
		noted[e.Step] = e.Digest
	}
	same, unknown := 0, 0
	for step, digest := range published {
		switch want := noted[step]; {
		case want == "":
			unknown++
		case digest != want:
			t.Errorf("%s: the follower's checkpoint of step %d has digest %s, the run noted %s", name, step, digest, want)
		case step < last:
			same++
		}
	}
	t.Logf("%d checkpoints before the last step have the digests that the run noted; of %d more it noted none", same, unknown)
	if same == 0 {
		t.Errorf("%s: no checkpoint before the last step was compared, of %d", name, len(published))
	}
}

// checkTopic reads the records of the topic. The end of each epoch that the trainer reported as acknowledged is there, and was written
// before the report: it was not lost and sent again. A base replaces the steps up to its own. A trainer that was started again does not
// send all rows of a step that its partition had then.
func (x *followedRun) checkTopic(t *testing.T) {
	t.Helper()
	topic, base := openTopic(t, x.to), int64(-1)
	defer topic.Close()
	for _, ends := range readEnds(t, topic.Base()) {
		for _, e := range ends {
			base = max(base, e.to)
		}
	}
	written := map[int64]int64{} // when the first epoch was that ends with a step
	for partition, ends := range readEnds(t, topic) {
		for i, e := range ends {
			if !x.coded && i > 0 && e.absolute && e.to <= ends[i-1].to {
				t.Errorf("%s: partition %d has all rows of step %d behind an epoch of step %d", x.name, partition, e.to, ends[i-1].to)
			}
			if first, is := written[e.to]; !is || e.written < first {
				written[e.to] = e.written
			}
		}
	}
	resumed := map[string]bool{} // a trainer begins with reports of the step that it resumes from, at which no epoch need end
	for _, m := range resumeEvent.FindAllStringSubmatch(eventsOf(t, x.out), -1) {
		resumed[m[1]] = true
	}
	checked := 0
	for step, reported := range x.streamed {
		if step <= base || resumed[strconv.FormatInt(step, 10)] {
			continue
		}
		checked++
		if first, is := written[step]; !is || first > reported {
			t.Errorf("%s: step %d was reported as acknowledged at %d, and the topic has it: %t, written at %d", x.name, step, reported, is, first)
		}
	}
	t.Logf("the topic has %d of %d steps that were reported as acknowledged; the others are of bases, or of resumptions", checked,
		len(x.streamed))
	if *soak && !x.trims && checked == 0 {
		t.Errorf("%s: no step that was reported as acknowledged was looked for", x.name)
	}
}

// openTopic opens a topic to read it.
func openTopic(t *testing.T, name string) stream.Topic {
	t.Helper()
	if dir, ok := strings.CutPrefix(name, "file:"); ok {
		return stream.OpenFolder(env.Real(), dir)
	}
	topic, err := kafkatopic.Open(env.Real(), name)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// epochEnd is the last record of an epoch.
type epochEnd struct {
	absolute    bool // the epoch has all rows
	to, written int64
}

// readEnds returns the ends of the epochs of a topic, by partition in the order of their offsets.
func readEnds(t *testing.T, topic stream.Topic) (all [][]epochEnd) {
	t.Helper()
	n, err := topic.Partitions()
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		p, err := topic.Open(i)
		if err != nil {
			t.Fatal(err)
		}
		ends, err := endsOf(p)
		p.Close()
		if err != nil {
			t.Fatalf("partition %d: %v", i, err)
		}
		all = append(all, ends)
	}
	return all
}

// endsOf reads the records of a partition. It parses frames itself, and so also finds epochs that a reader of models drops.
func endsOf(p stream.Partition) (ends []epochEnd, err error) {
	const headerBytes, kindEnd, isAbsolute = 80, 3, 1
	first, next, err := p.Bounds()
	for at := first; err == nil && at < next; {
		var records []stream.Record
		records, err = p.Read(at, 8<<20, time.Second)
		for _, r := range records {
			at = r.Offset + 1
			b := r.Bytes
			if len(b) < headerBytes || string(b[:4]) != "ECRS" {
				return nil, fmt.Errorf("offset %d has no frame", r.Offset)
			}
			if b[6] == kindEnd {
				ends = append(ends, epochEnd{b[7] == isAbsolute, int64(binary.LittleEndian.Uint64(b[56:])), r.Time})
			}
		}
	}
	return ends, err
}
