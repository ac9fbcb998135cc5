"""Runs: a recipe and a seed, carried out in a folder."""
