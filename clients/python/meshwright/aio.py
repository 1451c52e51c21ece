"""The client for programs that run an asyncio loop."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any, AsyncIterator, Callable, List, Optional, Sequence, Type, TypeVar, Union, cast

import grpc
from google.protobuf.message import Message

from . import _requests, v1
from ._channel import DEFAULT_DEADLINE, DEFAULT_LAUNCH_DEADLINE, STUBS, Access, channel_options, check_deadline
from ._messages import parse
from ._requests import Case, History, Pair
from ._watch import DEFAULT_PATIENCE, Watch
from .decision import Decision, answered, failed
from .errors import MeshwrightError, from_call
from .questions import Json, Path, PlanInput, Question, to_question

R = TypeVar("R", bound=Message)


class AsyncClient:
    """As Client (client.py, where the methods are described), for one asyncio loop. Methods that
    return iterators there return asynchronous iterators here."""

    def __init__(self, address: str, *, token: Optional[str] = None, token_file: Optional[Path] = None,
                 ca: Optional[Path] = None, cert: Optional[Path] = None, key: Optional[Path] = None,
                 tls: bool = False, deadline: float = DEFAULT_DEADLINE) -> None:
        self._access = Access(address, token, token_file, ca, cert, key, tls)
        self._deadline = check_deadline(deadline)
        self._channel: Optional[grpc.aio.Channel] = None
        self._stubs: dict[str, Any] = {}

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()

    async def close(self) -> None:
        channel, self._channel, self._stubs = self._channel, None, {}
        if channel is not None:
            await channel.close()

    def _method(self, service: str, method: str) -> Callable[..., Any]:
        if self._channel is None:
            credentials, options = self._access.credentials(), channel_options()
            if credentials is None:
                self._channel = grpc.aio.insecure_channel(self._access.address, options)
            else:
                self._channel = grpc.aio.secure_channel(self._access.address, credentials, options)
            self._stubs = {name: stub(self._channel) for name, stub in STUBS.items()}
        return cast("Callable[..., Any]", getattr(self._stubs[service], method))

    async def _call(self, service: str, method: str, request: Message, kind: Type[R], deadline: Optional[float]) -> R:
        seconds = self._deadline if deadline is None else check_deadline(deadline)
        call = self._method(service, method)
        try:
            return cast(R, await call(request, timeout=seconds, metadata=self._access.metadata()))
        except grpc.aio.AioRpcError as error:
            raise from_call(error) from error

    async def _pages(self, service: str, method: str, request: Any, kind: Type[R], items: str,
                     deadline: Optional[float]) -> AsyncIterator[Any]:
        while True:
            page = await self._call(service, method, request, kind, deadline)
            for item in getattr(page, items):
                yield item
            request.page_token = getattr(page, "next_page_token")
            if not request.page_token:
                return

    # Questions --------------------------------------------------------------------------------------

    async def recommend(self, question: Question, *, is_unrecorded: bool = False,
                        deadline: Optional[float] = None) -> v1.RecommendResponse:
        return await self._call("RecommendationService", "Recommend", _requests.recommend(question, is_unrecorded),
                                v1.RecommendResponse, deadline)

    async def recommend_or(self, own_plan: Optional[PlanInput], question: Question, *,
                           deadline: float = DEFAULT_LAUNCH_DEADLINE, is_unrecorded: bool = False,
                           raises_mistakes: bool = True) -> Decision:
        own: Optional[v1.Plan] = None
        end = time.monotonic() + check_deadline(deadline)
        try:
            own = _requests.own_plan_of(own_plan)
            request = _requests.recommend_or(own, question, is_unrecorded)
            response = await self._call("RecommendationService", "Recommend", request, v1.RecommendResponse,
                                        max(0.001, end - time.monotonic()))
        except MeshwrightError as error:
            return failed(error, own, raises_mistakes)
        return answered(response, own)

    async def evaluate_plans(self, cases: Sequence[Case], *, pairs: Sequence[Pair] = (),
                             history: Sequence[History] = (), cost_model: Optional[Json] = None,
                             deadline: Optional[float] = None) -> v1.EvaluatePlansResponse:
        end = time.monotonic() + (self._deadline if deadline is None else check_deadline(deadline))
        whole = v1.EvaluatePlansResponse()
        for request in _requests.evaluate_plans(cases, pairs, history, cost_model):
            part = await self._call("RecommendationService", "EvaluatePlans", request, v1.EvaluatePlansResponse,
                                    max(0.001, end - time.monotonic()))
            whole.MergeFrom(part)
        return whole

    async def compare_plans(self, question: Question, first: PlanInput, second: PlanInput, *,
                            deadline: Optional[float] = None) -> v1.ComparePlansResponse:
        request = _requests.compare_plans(question, first, second)
        return await self._call("RecommendationService", "ComparePlans", request, v1.ComparePlansResponse, deadline)

    async def explain_plan(self, question: Question, *, deadline: Optional[float] = None) -> v1.ExplainPlanResponse:
        request = v1.ExplainPlanRequest(question=to_question(question))
        return await self._call("RecommendationService", "ExplainPlan", request, v1.ExplainPlanResponse, deadline)

    # Studies ----------------------------------------------------------------------------------------

    async def create_study(self, question: Question, *, study_id: Optional[str] = None,
                           request_id: Optional[str] = None, deadline: Optional[float] = None) -> v1.Study:
        request = _requests.create_study(question, study_id, request_id)
        return (await self._call("TuningService", "CreateStudy", request, v1.CreateStudyResponse, deadline)).study

    async def get_study(self, study_id: str, *, deadline: Optional[float] = None) -> v1.GetStudyResponse:
        return await self._call("TuningService", "GetStudy", v1.GetStudyRequest(study_id=study_id), v1.GetStudyResponse,
                                deadline)

    def list_studies(self, *, filter: Union[v1.StudyFilter, Json, None] = None, page_size: int = 0,
                     deadline: Optional[float] = None) -> AsyncIterator[v1.Study]:
        request = v1.ListStudiesRequest(page_size=page_size)
        if filter is not None:
            request.filter.CopyFrom(parse(v1.StudyFilter, filter, "filter"))
        return self._pages("TuningService", "ListStudies", request, v1.ListStudiesResponse, "studies", deadline)

    def watch_study(self, study_id: str, *, after_revision: int = 0, deadline: Optional[float] = None,
                    patience: float = DEFAULT_PATIENCE) -> AsyncIterator[v1.WatchStudyResponse]:
        watch = Watch(study_id, after_revision, deadline, patience)
        return self._watch(watch)

    async def _watch(self, watch: Watch) -> AsyncIterator[v1.WatchStudyResponse]:
        while True:
            method = self._method("TuningService", "WatchStudy")
            call = method(watch.request(), timeout=watch.stream_seconds(), metadata=self._access.metadata())
            try:
                async for event in call:
                    if watch.receive(event):
                        yield event
                return
            except grpc.aio.AioRpcError as error:
                wait = watch.wait_after(from_call(error))
            finally:
                call.cancel()
            await asyncio.sleep(wait)

    async def cancel_study(self, study_id: str, *, deadline: Optional[float] = None) -> v1.Study:
        return (await self._call("TuningService", "CancelStudy", v1.CancelStudyRequest(study_id=study_id),
                                 v1.CancelStudyResponse, deadline)).study

    async def delete_study(self, study_id: str, *, retract_measurements: bool = False, etag: Optional[str] = None,
                           request_id: Optional[str] = None,
                           deadline: Optional[float] = None) -> v1.DeleteStudyResponse:
        return await self._call("TuningService", "DeleteStudy",
                                _requests.delete_study(study_id, retract_measurements, etag, request_id),
                                v1.DeleteStudyResponse, deadline)

    async def retry_trials(self, study_id: str, trial_numbers: Sequence[int] = (), *,
                           failure_classes: Sequence[str] = (), etag: Optional[str] = None,
                           request_id: Optional[str] = None,
                           deadline: Optional[float] = None) -> v1.RetryTrialsResponse:
        return await self._call("TuningService", "RetryTrials",
                                _requests.retry_trials(study_id, trial_numbers, failure_classes, etag, request_id),
                                v1.RetryTrialsResponse, deadline)

    async def update_study(self, study_id: str, *, deadline: Optional[float] = None, **changes: Any) -> v1.Study:
        return (await self._call("TuningService", "UpdateStudy", _requests.update_study(study_id, changes),
                                 v1.UpdateStudyResponse, deadline)).study

    def list_plans(self, study_id: str, *, view: Optional[str] = None, page_size: int = 0,
                   deadline: Optional[float] = None) -> AsyncIterator[v1.RankedPlan]:
        request = v1.ListPlansRequest(study_id=study_id, page_size=page_size, view=view)
        return self._pages("TuningService", "ListPlans", request, v1.ListPlansResponse, "plans", deadline)

    def list_trials(self, study_id: str, *, page_size: int = 0, deadline: Optional[float] = None,
                    **filters: Any) -> AsyncIterator[v1.Trial]:
        request = parse(v1.ListTrialsRequest, {**filters, "study_id": study_id, "page_size": page_size})
        return self._pages("TuningService", "ListTrials", request, v1.ListTrialsResponse, "trials", deadline)

    # Results and the server -------------------------------------------------------------------------

    async def place_jobs(self, request: Union[v1.PlaceJobsRequest, Json], *,
                         deadline: Optional[float] = None) -> v1.PlacementAnswer:
        response = await self._call("PlacementService", "PlaceJobs", parse(v1.PlaceJobsRequest, request, "request"),
                                    v1.PlaceJobsResponse, deadline)
        return response.placement

    async def report_job(self, report: Union[v1.CreateJobReportRequest, Json], *,
                         deadline: Optional[float] = None) -> v1.CreateJobReportResponse:
        return await self._call("FeedbackService", "CreateJobReport", _requests.job_report(report),
                                v1.CreateJobReportResponse, deadline)

    def list_job_reports(self, *, filter: Union[v1.MeasurementFilter, Json, None] = None, page_size: int = 0,
                         deadline: Optional[float] = None) -> AsyncIterator[v1.Measurement]:
        request = v1.ListJobReportsRequest(page_size=page_size)
        if filter is not None:
            request.filter.CopyFrom(parse(v1.MeasurementFilter, filter, "filter"))
        return self._pages("FeedbackService", "ListJobReports", request, v1.ListJobReportsResponse, "reports", deadline)

    async def get_server_info(self, *, deadline: Optional[float] = None) -> v1.GetServerInfoResponse:
        return await self._call("ServerService", "GetServerInfo", v1.GetServerInfoRequest(), v1.GetServerInfoResponse,
                                deadline)

    async def list_chips(self, *, deadline: Optional[float] = None) -> List[v1.Chip]:
        answer = await self._call("CatalogService", "ListChips", v1.ListChipsRequest(), v1.ListChipsResponse, deadline)
        return list(answer.chips)

    async def call(self, service: str, method: str, request: Message, kind: Type[R], *,
                   deadline: Optional[float] = None) -> R:
        return await self._call(service, method, request, kind, deadline)
