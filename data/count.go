package data

import (
	"cmp"
	"os"
)

// maxListed is the largest number of words whose texts a vocabulary has. A larger one has their hashes.
const maxListed = 1 << 20

// maxWords is the largest number of words of a vocabulary.
const maxWords = 1 << 25

// fitLimits are limits of Fit that tests lower. Zeros are the limits above.
type fitLimits struct{ memory, listed, words int64 }

func (l fitLimits) orDefault() fitLimits {
	if l == (fitLimits{}) {
		return fitLimits{wordMemory, maxListed, maxWords}
	}
	return l
}

// newSpill returns a spill in the folder of record files.
func (o *Options) newSpill() *spill {
	return newSpill(o.Env, cmp.Or(o.RecordDir, os.TempDir()), o.limits.orDefault().memory)
}

// tableCount counts the texts of a table.
type tableCount struct {
	counts *wordCounts // nil: the rows of the table are given

	// The texts of the columns of the table, in each file.
	texts []struct {
		file   *textFile
		column int
	}
}

// counting is the state of Fit that counts tables.
type counting struct {
	spill  *spill
	limits fitLimits
	tables []tableCount
	files  []*textFile
}

// newCounting prepares the counts, and opens the texts of all record files.
func (f *fit) newCounting() (*counting, error) {
	c := &counting{spill: f.o.newSpill(), tables: make([]tableCount, len(f.o.Tables)), limits: f.o.limits.orDefault()}
	if !f.o.fitsTables() {
		return c, nil
	}
	schema := f.o.schema(0)
	for i, name := range f.files {
		file, err := openTexts(f.o.Env, name, f.headers[i].source, f.headers[i].tables)
		if err != nil {
			c.closeFiles()
			return nil, err
		}
		c.files = append(c.files, file)
		for column := range f.recipe.Categorical {
			if t := schema.TableOfFeature(column); f.o.Tables[t] == 0 {
				c.tables[t].counts = newWordCounts(c.spill, len(c.tables))
				c.tables[t].texts = append(c.tables[t].texts, struct {
					file   *textFile
					column int
				}{file, column})
			}
		}
	}
	return c, nil
}

func (c *counting) closeFiles() {
	c.spill.closeFile()
	for _, f := range c.files {
		f.closeFile()
	}
}

func (c *counting) countHash(table int, hash uint64) {
	if counts := c.tables[table].counts; counts != nil {
		counts.countHash(hash)
	}
}

// eachWord calls visit for the texts of a table that samples have, by hash.
func (c *counting) eachWord(t *tableCount, visit func(w *word) error) error {
	several := len(t.counts.runs) + len(t.texts)
	lists := t.counts.sources(several)
	for _, of := range t.texts {
		lists = append(lists, of.file.list(of.column, several))
	}
	return mergeWords(lists, byHash, func(w *word) error {
		if w.count == 0 || w.hash == missingHash {
			return nil
		}
		return visit(w)
	})
}

// finishColumn sets the table of a column. The first column of a table gets its vocabulary.
func (f *fit) finishColumn(k *counting, c *Category, index int, t *tableCount) error {
	if first := f.recipe.firstOf(index); first < index {
		of := &f.recipe.Categorical[first]
		c.IDs, c.Rows, c.Reserved = of.IDs, of.Rows, of.Reserved
		return nil
	}
	if err := t.counts.endWords(); err != nil {
		return err
	}
	distinct, words, least := int64(0), int64(0), uint64(max(f.o.MinCount, 1))
	err := k.eachWord(t, func(w *word) error {
		if w.text == "" {
			return lacksText(f.files[0], index)
		}
		distinct++
		if w.count >= least {
			words++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if words > k.limits.words {
		c.Reserved = 1 // no text is unknown
		c.Rows = min(c.Reserved+2*distinct, maxRows)
		return nil
	}
	c.Reserved, c.Rows, c.IDs = reservedTwo, reservedTwo+words, IDsVocabulary
	ranked := newSortedWords(k.spill, byRank, len(k.tables))
	err = k.eachWord(t, func(w *word) error {
		if w.count < least {
			return nil
		}
		return ranked.addWord(w)
	})
	if err != nil {
		return err
	}
	if words > k.limits.listed {
		f.recipe.Version, c.Hashes = hashesVersion, make(Hashes, 0, words)
		err = ranked.eachWord(func(w *word) error { c.Hashes = append(c.Hashes, w.hash); return nil })
	} else {
		c.Vocabulary = make([]string, 0, words)
		err = ranked.eachWord(func(w *word) error { c.Vocabulary = append(c.Vocabulary, w.text); return nil })
		c.checkTexts()
	}
	ranked.dropWords()
	t.counts.dropWords()
	return err
}
