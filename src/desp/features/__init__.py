"""Features of faces, from a classifier of their attributes."""
