package slurm

import "strings"

// plain are the characters, beside letters and digits, that mean nothing to bash and to
// sbatch anywhere in a word.
const plain = "_-+=:,./@%"

func isPlain(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(plain, r))
	}) < 0
}

// Quote writes a word so that bash reads it as it is.
func Quote(word string) string {
	if isPlain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Line writes words as a command of bash.
func Line(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// option writes an option so that sbatch, which has rules of its own, reads it as it is.
func option(name, value string) string {
	if !isPlain(value) {
		value = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
	}
	return "--" + name + "=" + value
}
