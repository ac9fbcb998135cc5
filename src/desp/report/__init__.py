"""Pictures and pages of a finished or running run, read from its folder alone.

Nothing here knows of models: a report can be made on a machine that could not run one.
"""

from desp.report.figures import draw_ablation
from desp.report.folder import RunRecord, read_run
from desp.report.page import write_report

__all__ = ["RunRecord", "draw_ablation", "read_run", "write_report"]
