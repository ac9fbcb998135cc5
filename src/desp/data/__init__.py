"""Data: everything that yields inputs with their sets."""

from desp.data.base import GeneratedSource
from desp.data.digits import draw_digits
from desp.data.mnist import PointTable, load_mnist
from desp.data.polygons import draw_polygons

__all__ = ["GeneratedSource", "PointTable", "draw_digits", "draw_polygons", "load_mnist"]
