"""Pictures of a run, as PNG or SVG bytes. Only these files draw; matplotlib is loaded when they do.

Where it is not installed, drawing raises `MissingExtraError`.
"""
