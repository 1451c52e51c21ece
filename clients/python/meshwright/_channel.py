"""What sync and asyncio clients share about the way to a server."""

from __future__ import annotations

import json
import pathlib
import random
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import grpc

from .errors import MeshwrightError, unreadable_file
from .questions import Path
from .v1 import catalog_pb2_grpc, history_pb2_grpc, placement_pb2_grpc, service_pb2_grpc

# Seconds for calls that state no deadline of their own.
DEFAULT_DEADLINE = 30.0
DEFAULT_LAUNCH_DEADLINE = 10.0

STUBS: Dict[str, Callable[[Any], Any]] = {
    "CatalogService": catalog_pb2_grpc.CatalogServiceStub,
    "ServerService": catalog_pb2_grpc.ServerServiceStub,
    "FeedbackService": history_pb2_grpc.FeedbackServiceStub,
    "HistoryService": history_pb2_grpc.HistoryServiceStub,
    "PlacementService": placement_pb2_grpc.PlacementServiceStub,
    "RecommendationService": service_pb2_grpc.RecommendationServiceStub,
    "TuningService": service_pb2_grpc.TuningServiceStub,
}

_SERVICES = "meshwright.v1."

# Calls that can be repeated: they read, or carry a request id, or do nothing the second time.
# Recommend belongs to them: the server answers an equal question with the first answer and its
# study; only if it was restarted in between may a second study keep the same answer. BackupStore and
# imports are never repeated.
_REPEATABLE: Dict[str, List[str]] = {
    "RecommendationService": [],  # all of its methods
    "PlacementService": [],
    "ServerService": [],
    "CatalogService": [],
    "TuningService": ["CreateStudy", "GetStudy", "ListStudies", "CancelStudy", "DeleteStudy", "RetryTrials",
                      "UpdateStudy", "PauseStudy", "ResumeStudy", "ListPlans", "GetPlan", "CompareStudyPlans",
                      "ListTrials", "GetTrial", "ListParetoTrials", "ListAttempts",
                      "GetTrialLogs"],
    "FeedbackService": ["CreateJobReport", "ListJobReports"],
    "HistoryService": ["ListMeasurements", "GetMeasurement", "RetractMeasurement", "ListCalibrations",
                       "GetCalibration"],
}

# gRPC waits a random time before each attempt, and never longer than the call's deadline allows.
_RETRY_POLICY = {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2,
                 "retryableStatusCodes": ["UNAVAILABLE"]}


def service_config() -> str:
    names: List[Dict[str, str]] = []
    for service, methods in _REPEATABLE.items():
        names += [{"service": _SERVICES + service, "method": method} for method in methods]
        if not methods:
            names.append({"service": _SERVICES + service})
    return json.dumps({"methodConfig": [{"name": names, "retryPolicy": _RETRY_POLICY}]})


def channel_options() -> List[Tuple[str, Any]]:
    return [
        ("grpc.service_config", service_config()),
        ("grpc.enable_retries", 1),
        ("grpc.max_receive_message_length", 64 * 1024 * 1024),
        ("grpc.max_send_message_length", 16 * 1024 * 1024),
        # A long list of bad fields needs more than the default 8 KiB.
        ("grpc.max_metadata_size", 1024 * 1024),
        # A proxy from the environment cannot reach servers on this machine.
        ("grpc.enable_http_proxy", 0),
        # A client that lives on finds a restarted server soon; by default it may wait two minutes.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2000),
    ]


def backoff_seconds(failures: int) -> float:
    """Returns the time to wait after so many failures in a row, as gRPC's policy above does."""
    return random.uniform(0, min(2.0, 0.1 * 2.0 ** min(failures, 10)))


@dataclass(frozen=True)
class Access:
    """The server's address, and how to show who calls. Files are read when they are needed, so that
    a token or a certificate can be changed under a client that lives on."""

    address: str
    token: Optional[str] = None
    token_file: Optional[Path] = None
    ca: Optional[Path] = None
    cert: Optional[Path] = None
    key: Optional[Path] = None
    tls: bool = False

    def __post_init__(self) -> None:
        if not self.address:
            raise ValueError("address is empty; must be HOST:PORT or unix:/PATH")
        if self.token is not None and self.token_file is not None:
            raise ValueError("token and token_file are both stated; must be one of them")
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key must be stated together")

    @property
    def has_tls(self) -> bool:
        return self.tls or self.ca is not None or self.cert is not None

    def credentials(self) -> Optional[grpc.ChannelCredentials]:
        """Returns the credentials of a connection, or None for one in clear. Without `ca`, the
        certificates that gRPC brings along are trusted."""
        if not self.has_tls:
            return None
        return grpc.ssl_channel_credentials(_read(self.ca), _read(self.key), _read(self.cert))

    def metadata(self) -> Sequence[Tuple[str, str]]:
        token = self.token
        if self.token_file is not None:
            token = (_read(self.token_file) or b"").decode("ascii", "replace").strip()
        if token is None:
            return []
        if not re.fullmatch(r"[!-~]+", token):  # gRPC refuses others; the error must not repeat it
            raise MeshwrightError(grpc.StatusCode.FAILED_PRECONDITION, "INVALID_TOKEN",
                                  "the token is empty or has other characters than printable ASCII")
        return [("authorization", f"Bearer {token}")]


def _read(path: Optional[Path]) -> Optional[bytes]:
    if path is None:
        return None
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise unreadable_file(error) from error


def check_deadline(seconds: float) -> float:
    """Returns the deadline, or raises ValueError if it is none."""
    if not 0 < seconds <= 7 * 24 * 3600:
        raise ValueError(f"deadline = {seconds}; must be seconds, over 0 and at most a week")
    return float(seconds)
