"""The paper's numbers, as data: tables 1 to 5, unscaled (8.8e-5, not 8.8)."""

from desp.recipes import Published, Table, register_table


def _cells(task: str, system: str, unit: float, **metrics: tuple[float, float | None]) -> Published:
    return {
        (task, system, name): (value * unit, None if spread is None else spread * unit)
        for name, (value, spread) in metrics.items()
    }


_TOY = {
    **_cells("polygons", "risk-chamfer", 1e-5, score=(1195.0, 6.8)),
    **_cells("polygons", "risk-hungarian", 1e-5, score=(14.8, 5.3)),
    **_cells("polygons", "desp", 1e-5, score=(8.8, 1.5)),
    **_cells("digits", "risk-chamfer", 1e-5, score=(2.4, 0.3)),
    **_cells("digits", "risk-hungarian", 1e-5, score=(48.0, 2.3)),
    **_cells("digits", "desp", 1e-5, score=(1.8, 0.1)),
}

_MNIST = {
    **_cells("set-mnist", "c-dspn", 1, size_rmse_released=(0.300, 0.130)),
    **_cells("set-mnist", "tspn", 1, size_rmse_released=(0.800, 0.080)),
    **_cells("set-mnist", "desp", 1, size_rmse_released=(0.002, 0.003)),
    **_cells("set-mnist", "dspn-chamfer", 1e-4, chamfer=(0.9, 0.1), hungarian=(1600.2, 162.7)),
    **_cells("set-mnist", "dspn-hungarian", 1e-4, chamfer=(2.8, 0.8), hungarian=(3.2, 0.8)),
    **_cells("set-mnist", "desp", 1e-4, chamfer=(0.6, 0.1), hungarian=(0.6, 0.1)),
}

_CLEVR = {
    **_cells("clevr-boxes", "c-dspn", 1e-2, ap50=(67.7, 5.5), ap90=(7.4, 0.9)),
    **_cells("clevr-boxes", "tspn", 1e-2, ap50=(81.2, 1.0), ap90=(20.7, 0.2)),
    **_cells("clevr-boxes", "dspn-hungarian", 1e-2, ap50=(94.0, 0.4), ap60=(90.6, 0.6), ap70=(82.2, 1.4)),
    **_cells("clevr-boxes", "dspn-hungarian", 1e-2, ap80=(58.9, 3.4), ap90=(16.0, 2.4)),
    **_cells("clevr-boxes", "desp", 1e-2, ap50=(96.2, 0.5), ap60=(92.5, 1.0), ap70=(80.9, 1.8)),
    **_cells("clevr-boxes", "desp", 1e-2, ap80=(54.3, 3.4), ap90=(17.4, 1.6)),
}

_CELEBA = {
    **_cells("all", "tagger", 1, precision=(0.73, 0.02), recall=(0.56, 0.01), f1=(0.63, 0.01)),
    **_cells("all", "desp", 1, precision=(0.74, 0.02), recall=(0.78, 0.01), f1=(0.76, 0.01)),
    **_cells("ambiguous", "tagger", 1, precision=(0.75, 0.02), recall=(0.34, 0.01), f1=(0.47, 0.01)),
    **_cells("ambiguous", "desp", 1, precision=(0.76, 0.02), recall=(0.58, 0.01), f1=(0.66, 0.0)),
}

_BOX_METRICS = ("ap50", "ap60", "ap70", "ap80", "ap90")
_STATE_METRICS = ("ap_inf", "ap1", "ap05", "ap025", "ap0125")
# The loosest and the strictest of each.
_ENDS = ("ap50", "ap90", "ap_inf", "ap0125")

PUBLISHED = (
    Table("toy", "Polygons and Digits", ("score",), _TOY),
    Table("mnist", "set-MNIST auto-encoding", ("chamfer", "hungarian", "size_rmse_released"), _MNIST),
    Table("clevr", "CLEVR boxes and states", (*_BOX_METRICS, *_STATE_METRICS), _CLEVR, _ENDS),
    Table("celeba", "CelebA subset anomalies", ("precision", "recall", "f1"), _CELEBA, ("f1",)),
)
"""The paper's tables, with what it reports."""

for _table in PUBLISHED:
    register_table(_table)
