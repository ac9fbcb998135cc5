"""Small problems of own data, on which the defaults are compared with what a user would try first."""
