package paper

// ownDrawings are figures of ours that no paper has: goodput, scale.
func ownDrawings() []Drawing { return goodputDrawings() }
