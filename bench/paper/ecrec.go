package paper

func ecrecDrawings() []Drawing { return nil }
