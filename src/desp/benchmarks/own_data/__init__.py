"""Small problems of own data: by how much the defaults are better than what a user would try first."""
