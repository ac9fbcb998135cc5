"""Data: everything that yields inputs with their sets."""

from desp.data.base import DeviceSource
from desp.data.digits import draw_digits
from desp.data.mnist import PointTable, load_mnist
from desp.data.polygons import draw_polygons

__all__ = ["DeviceSource", "PointTable", "draw_digits", "draw_polygons", "load_mnist"]
