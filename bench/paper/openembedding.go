package paper

func openEmbeddingDrawings() []Drawing { return nil }
