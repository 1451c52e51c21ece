"""The errors of calls, and of requests that cannot be sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Tuple, cast

import grpc
from google.protobuf.message import DecodeError

from . import rpc, v1

DOMAIN = "meshwright"  # of reasons in google.rpc.ErrorInfo
DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True)
class FieldMistake:
    """A bad field, as a path such as model.layers[3].hidden_size, with its value and its limit."""

    field: str
    description: str

    def __str__(self) -> str:
        return f"{self.field} = {self.description}" if self.field else self.description


class MeshwrightError(Exception):
    """A call that failed.

    `reason` is stable and meant for programs (docs/reference/errors.md). An error that did not come
    from Meshwright, such as a broken connection, has its code as the reason, and
    `is_by_meshwright` is False.
    """

    def __init__(self, code: grpc.StatusCode, reason: str, message: str, fields: Sequence[FieldMistake] = (),
                 metadata: Optional[Mapping[str, str]] = None, is_by_meshwright: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.fields: Tuple[FieldMistake, ...] = tuple(fields)
        self.metadata: Mapping[str, str] = dict(metadata or {})
        self.is_by_meshwright = is_by_meshwright

    def __str__(self) -> str:
        # A message that would be too long for gRPC only counts the fields.
        unnamed = [f"\n  {mistake}" for mistake in self.fields if mistake.field not in self.message]
        return f"{self.reason}: {self.message}{''.join(unnamed)}"

    @property
    def is_mistake(self) -> bool:
        """True if the request has to change before it can succeed, False if the service or the way
        to it is to blame."""
        if not self.is_by_meshwright:
            return False
        if self.code is grpc.StatusCode.FAILED_PRECONDITION:
            return self.reason in _PRECONDITIONS_OF_QUESTIONS
        return self.code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND,
                             grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.UNIMPLEMENTED)


class InvalidRequest(MeshwrightError):
    """A request with mistakes; `fields` has all of them, or the first 20 and a count. It is also
    raised before a request is sent, if it does not have the fields and types of the API."""


class NoFeasiblePlan(MeshwrightError):
    """No plan of the question fits; `infeasible` says what binds and which changes would help."""

    infeasible: v1.Infeasible


class NotFound(MeshwrightError):
    """A study, plan, trial, chip or another thing that does not exist."""


class Unavailable(MeshwrightError):
    """The server cannot be reached, is starting or stopping, or its store is busy."""


class DeadlineExceeded(MeshwrightError):
    """There was no answer within the deadline."""


# The other reasons of FAILED_PRECONDITION are about the state of a store, a study or a vendor's
# program.
_PRECONDITIONS_OF_QUESTIONS = frozenset({"NO_FEASIBLE_PLAN", "CHIP_NOT_MODELLED", "NO_COST_MODELS"})

_CLASSES = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
}


def invalid_request(fields: Sequence[FieldMistake]) -> InvalidRequest:
    """Returns the error of a request that is not sent because of these fields."""
    message = "; ".join(str(field) for field in fields)
    return InvalidRequest(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELDS", message, fields, is_by_meshwright=True)


def unreadable_file(error: OSError) -> MeshwrightError:
    """Returns the error of a token or certificate that cannot be read when it is needed."""
    return MeshwrightError(grpc.StatusCode.FAILED_PRECONDITION, "UNREADABLE_FILE",
                           f"{error.filename}: {error.strerror}")


def from_call(error: Any) -> MeshwrightError:
    """Returns the error of a call that gRPC has raised, sync or asyncio."""
    code = cast(grpc.StatusCode, error.code())
    message = str(error.details() or "")
    if code is grpc.StatusCode.UNKNOWN and "Stream removed" in message:  # a connection that broke
        code = grpc.StatusCode.UNAVAILABLE
    kind = _CLASSES.get(code, MeshwrightError)
    status, info, bad_request, infeasible = rpc.Status(), rpc.ErrorInfo(), rpc.BadRequest(), v1.Infeasible()
    known: Mapping[str, Any] = {"google.rpc.ErrorInfo": info, "google.rpc.BadRequest": bad_request,
                                "meshwright.v1.Infeasible": infeasible}
    try:
        for key, value in error.trailing_metadata() or ():
            if key == DETAILS_KEY:
                status.ParseFromString(value)
        for detail in status.details:
            name = detail.type_url.rpartition("/")[2]
            if name in known:
                known[name].ParseFromString(detail.value)
    except DecodeError:  # details that are not a Meshwright server's
        return kind(code, code.name, message)
    fields = [FieldMistake(one.field, one.description) for one in bad_request.field_violations]
    if info.reason == "NO_FEASIBLE_PLAN":
        kind = NoFeasiblePlan
    made = kind(code, info.reason or code.name, status.message or message, fields, dict(info.metadata),
                info.domain == DOMAIN)
    if isinstance(made, NoFeasiblePlan):
        made.infeasible = infeasible
    return made
