package paper

func bagPipeDrawings() []Drawing { return nil }
