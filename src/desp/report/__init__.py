"""Pictures and pages of a finished or running run, read from its folder alone.

Nothing here knows of models: a report can be made on a machine that could not run one.
"""
