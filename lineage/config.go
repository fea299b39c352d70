package lineage

import (
	"fmt"
	"strings"

	"github.com/ecrec/ecrec/config"
)

// Config is a config with the recipe's keys, and defaults for all others. Files are identities in a
// recipe, so the config names none. It is not checked. The error is for a recipe of another version.
func (r Recipe) Config() (*config.Config, error) {
	var doc strings.Builder
	for _, e := range r {
		if e.Key != "data.train" && e.Key != "data.eval" && e.Key != "model.init_from" {
			fmt.Fprintf(&doc, "%s = %s\n", e.Key, e.Value)
		}
	}
	c, err := config.Parse([]byte(doc.String()))
	if err != nil {
		return nil, fmt.Errorf("the recipe is not one of this version of ecrec: %w", err)
	}
	return c, nil
}
