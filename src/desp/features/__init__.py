"""Features of items, learned from their attributes: what sets of faces are made of."""
