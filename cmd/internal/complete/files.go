package complete

import (
	"os"
	"path/filepath"
	"strings"
)

// Folders is a Source of folders.
func Folders(args []string, prefix string) []Candidate { return Files()(args, prefix) }

// Files returns a Source of files with one of these endings, and of folders.
func Files(endings ...string) Source {
	return func(_ []string, prefix string) (found []Candidate) {
		dir, name := filepath.Split(prefix)
		entries, err := os.ReadDir(filepath.Join(".", dir))
		if filepath.IsAbs(dir) {
			entries, err = os.ReadDir(dir)
		}
		if err != nil {
			return nil // nothing to complete there
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(name, ".") {
				continue
			}
			path := dir + e.Name()
			about, err := os.Stat(path) // follows links
			switch {
			case err != nil:
			case about.IsDir():
				found = add(found, prefix, path+"/", "")
			default:
				for _, ending := range endings {
					if strings.HasSuffix(path, ending) {
						found = add(found, prefix, path, "")
					}
				}
			}
		}
		return found
	}
}
