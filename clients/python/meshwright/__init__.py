"""Meshwright finds the parallel plan that trains a model fastest on a cluster. This package asks a
server for it, before a job is launched or at any other time (docs/clients.md)."""

from ._messages import to_dict
from .aio import AsyncClient
from .client import Client
from .decision import Decision
from .errors import (
    DeadlineExceeded,
    FieldMistake,
    InvalidRequest,
    MeshwrightError,
    NoFeasiblePlan,
    NotFound,
    Unavailable,
)
from .questions import question

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "Client", "DeadlineExceeded", "Decision", "FieldMistake", "InvalidRequest", "MeshwrightError",
    "NoFeasiblePlan", "NotFound", "Unavailable", "question", "to_dict",
]
