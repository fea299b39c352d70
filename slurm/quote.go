package slurm

import "strings"

// plain lists the characters, in addition to letters and digits, that have no meaning for bash and
// sbatch anywhere in a word.
const plain = "_-+=:,./@%"

func isPlain(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(plain, r))
	}) < 0
}

// Quote quotes a word so that bash reads it unchanged.
func Quote(word string) string {
	if isPlain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Line returns words as a command of bash.
func Line(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// option quotes an option by the rules of sbatch, which differ from those of bash.
func option(name, value string) string {
	if !isPlain(value) {
		value = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
	}
	return "--" + name + "=" + value
}
