"""A package that adds variants to desp, as an installed one would."""
