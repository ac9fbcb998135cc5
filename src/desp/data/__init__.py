"""Data: everything that yields inputs with their sets."""

from desp.data.base import Batch, BatchSource, DatasetSource, GeneratedSource, collate
from desp.data.digits import draw_digits
from desp.data.files import DataFile, read_data_file
from desp.data.mnist import MnistData, PointTable, load_mnist
from desp.data.polygons import draw_polygons, polygon

__all__ = [
    "Batch",
    "BatchSource",
    "DataFile",
    "DatasetSource",
    "GeneratedSource",
    "MnistData",
    "PointTable",
    "collate",
    "draw_digits",
    "draw_polygons",
    "load_mnist",
    "polygon",
    "read_data_file",
]
