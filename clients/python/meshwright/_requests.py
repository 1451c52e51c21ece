"""Requests from the arguments of methods, the same for sync and asyncio clients."""

from __future__ import annotations

import uuid
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Union

from . import v1
from ._messages import parse
from .errors import FieldMistake, invalid_request
from .questions import Json, PlanInput, Question, to_case, to_question

Case = Union[v1.EvaluateCase, Json]
Pair = Union[v1.CasePair, Json]
History = Union[v1.HistoryRow, Json]

# The parts of an EvaluatePlans: small enough that a part is answered soon, large enough that the
# overhead of a call is negligible. They are those of the command line.
_CASES_PER_CALL = 512
_BYTES_PER_CALL = 2_000_000


def new_request_id() -> str:
    return str(uuid.uuid4())


def recommend(question: Question, is_unrecorded: bool) -> v1.RecommendRequest:
    return v1.RecommendRequest(question=to_question(question), is_unrecorded=is_unrecorded)


def own_plan_of(own_plan: Optional[PlanInput]) -> Optional[v1.Plan]:
    return None if own_plan is None else parse(v1.Plan, own_plan, "own_plan")


def recommend_or(own: Optional[v1.Plan], question: Question, is_unrecorded: bool) -> v1.RecommendRequest:
    """Returns the request. The caller's own plan is the baseline unless the question states one."""
    request = recommend(question, is_unrecorded)  # with a copy of the question
    if own is not None and not request.question.HasField("baseline"):
        request.question.baseline.CopyFrom(own)
    return request


def create_study(question: Question, study_id: Optional[str], request_id: Optional[str]) -> v1.CreateStudyRequest:
    return v1.CreateStudyRequest(question=to_question(question), study_id=study_id,
                                 request_id=request_id or new_request_id())


def delete_study(study_id: str, retract_measurements: bool, etag: Optional[str],
                 request_id: Optional[str]) -> v1.DeleteStudyRequest:
    return v1.DeleteStudyRequest(study_id=study_id, retract_measurements=retract_measurements, etag=etag,
                                 request_id=request_id or new_request_id())


def retry_trials(study_id: str, trial_numbers: Sequence[int], failure_classes: Sequence[str], etag: Optional[str],
                 request_id: Optional[str]) -> v1.RetryTrialsRequest:
    return v1.RetryTrialsRequest(study_id=study_id, trial_numbers=trial_numbers,
                                 failure_classes=failure_classes, etag=etag,
                                 request_id=request_id or new_request_id())


def compare_plans(question: Question, first: PlanInput, second: PlanInput) -> v1.ComparePlansRequest:
    return v1.ComparePlansRequest(question=to_question(question), first_plan=parse(v1.Plan, first, "first_plan"),
                                  second_plan=parse(v1.Plan, second, "second_plan"))


def evaluate_plans(cases: Sequence[Case], pairs: Sequence[Pair], history: Sequence[History],
                   cost_model: Optional[Json]) -> Iterator[v1.EvaluatePlansRequest]:
    """Yields the requests that answer all cases. Cases with groups or pairs are one request, because
    only the call that has all of them can compare them."""
    whole = v1.EvaluatePlansRequest(
        cases=[to_case(one, index) for index, one in enumerate(cases)],
        pairs=[parse(v1.CasePair, one, f"pairs[{index}]") for index, one in enumerate(pairs)],
        history=[parse(v1.HistoryRow, one, f"history[{index}]") for index, one in enumerate(history)])
    if cost_model is not None:
        whole.cost_model.CopyFrom(parse(v1.CostModelRequest, cost_model, "cost_model"))
    if not whole.cases:
        raise invalid_request([FieldMistake("cases", "empty; must have a case")])
    if whole.pairs or any(one.HasField("group") for one in whole.cases):
        yield whole
        return
    part: List[v1.EvaluateCase] = []
    size = 0
    for case in whole.cases:
        part.append(case)
        size += case.ByteSize()
        if len(part) == _CASES_PER_CALL or size >= _BYTES_PER_CALL:
            yield _part(whole, part)
            part, size = [], 0
    if part:
        yield _part(whole, part)


def _part(whole: v1.EvaluatePlansRequest, cases: List[v1.EvaluateCase]) -> v1.EvaluatePlansRequest:
    made = v1.EvaluatePlansRequest(cases=cases, history=whole.history)
    if whole.HasField("cost_model"):
        made.cost_model.CopyFrom(whole.cost_model)
    return made


def update_study(study_id: str, changes: Mapping[str, Any]) -> v1.UpdateStudyRequest:
    return parse(v1.UpdateStudyRequest, {"study_id": study_id, "request_id": new_request_id(), **changes})


def job_report(report: Union[v1.CreateJobReportRequest, Json]) -> v1.CreateJobReportRequest:
    """Returns the request with a request id, so that it can be repeated."""
    request = v1.CreateJobReportRequest()
    request.CopyFrom(parse(v1.CreateJobReportRequest, report))
    if not request.HasField("request_id"):
        request.request_id = new_request_id()
    return request
