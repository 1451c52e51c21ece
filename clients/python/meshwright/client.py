"""The client for programs that wait for each answer."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Callable, Iterator, List, Optional, Sequence, Type, TypeVar, Union, cast

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


class Client:
    """Calls a server. A client can be used by several threads at once.

    Every call has a deadline in seconds: its own (`deadline=`) or the client's. The deadline
    includes all attempts. Calls raise MeshwrightError (errors.py). A connection is opened by the
    first call, so a client can be made while the server is away.
    """

    def __init__(self, address: str, *, token: Optional[str] = None, token_file: Optional[Path] = None,
                 ca: Optional[Path] = None, cert: Optional[Path] = None, key: Optional[Path] = None,
                 tls: bool = False, deadline: float = DEFAULT_DEADLINE) -> None:
        """`address` is HOST:PORT or unix:/PATH. TLS is used if `ca` (the file of the authority that
        signed the server's certificate), `cert` and `key` (the client's own) or `tls` is stated."""
        self._access = Access(address, token, token_file, ca, cert, key, tls)
        self._deadline = check_deadline(deadline)
        self._lock = threading.Lock()
        self._channel: Optional[grpc.Channel] = None
        self._stubs: dict[str, Any] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection and ends calls under way. A later call opens another one."""
        with self._lock:
            channel, self._channel, self._stubs = self._channel, None, {}
        if channel is not None:
            channel.close()

    def _method(self, service: str, method: str) -> Callable[..., Any]:
        with self._lock:
            if self._channel is None:
                credentials, options = self._access.credentials(), channel_options()
                if credentials is None:
                    self._channel = grpc.insecure_channel(self._access.address, options)
                else:
                    self._channel = grpc.secure_channel(self._access.address, credentials, options)
                self._stubs = {name: stub(self._channel) for name, stub in STUBS.items()}
            return cast("Callable[..., Any]", getattr(self._stubs[service], method))

    def _call(self, service: str, method: str, request: Message, kind: Type[R], deadline: Optional[float]) -> R:
        seconds = self._deadline if deadline is None else check_deadline(deadline)
        call = self._method(service, method)
        try:
            return cast(R, call(request, timeout=seconds, metadata=self._access.metadata()))
        except grpc.RpcError as error:
            raise from_call(error) from error

    def _pages(self, service: str, method: str, request: Any, kind: Type[R], items: str,
               deadline: Optional[float]) -> Iterator[Any]:
        while True:
            page = self._call(service, method, request, kind, deadline)
            yield from getattr(page, items)
            request.page_token = getattr(page, "next_page_token")
            if not request.page_token:
                return

    # Questions --------------------------------------------------------------------------------------

    def recommend(self, question: Question, *, is_unrecorded: bool = False,
                  deadline: Optional[float] = None) -> v1.RecommendResponse:
        """Returns the best plans that are found within the deadline, the one to launch first."""
        return self._call("RecommendationService", "Recommend", _requests.recommend(question, is_unrecorded),
                          v1.RecommendResponse, deadline)

    def recommend_or(self, own_plan: Optional[PlanInput], question: Question, *,
                     deadline: float = DEFAULT_LAUNCH_DEADLINE, is_unrecorded: bool = False,
                     raises_mistakes: bool = True) -> Decision:
        """Returns the plan to launch a job with: the server's, or `own_plan` (None: the settings that
        the job has anyway) if there is no answer within the deadline.

        A server that is away, late, full, or refuses the caller never raises. A mistake in the
        question does, and so does a question that no plan fits, unless `raises_mistakes` is False.
        `own_plan` is the question's baseline if it states no other."""
        own: Optional[v1.Plan] = None
        end = time.monotonic() + check_deadline(deadline)
        try:
            own = _requests.own_plan_of(own_plan)
            request = _requests.recommend_or(own, question, is_unrecorded)
            response = self._call("RecommendationService", "Recommend", request, v1.RecommendResponse,
                                  max(0.001, end - time.monotonic()))
        except MeshwrightError as error:
            return failed(error, own, raises_mistakes)
        return answered(response, own)

    def evaluate_plans(self, cases: Sequence[Case], *, pairs: Sequence[Pair] = (), history: Sequence[History] = (),
                       cost_model: Optional[Json] = None,
                       deadline: Optional[float] = None) -> v1.EvaluatePlansResponse:
        """Estimates plans. Any number of cases is sent, in parts if they are compared with no others;
        the deadline is that of all parts."""
        end = time.monotonic() + (self._deadline if deadline is None else check_deadline(deadline))
        whole = v1.EvaluatePlansResponse()
        for request in _requests.evaluate_plans(cases, pairs, history, cost_model):
            whole.MergeFrom(self._call("RecommendationService", "EvaluatePlans", request, v1.EvaluatePlansResponse,
                                       max(0.001, end - time.monotonic())))
        return whole

    def compare_plans(self, question: Question, first: PlanInput, second: PlanInput, *,
                      deadline: Optional[float] = None) -> v1.ComparePlansResponse:
        """Compares two plans of a question term by term."""
        return self._call("RecommendationService", "ComparePlans", _requests.compare_plans(question, first, second),
                          v1.ComparePlansResponse, deadline)

    def explain_plan(self, question: Question, *, deadline: Optional[float] = None) -> v1.ExplainPlanResponse:
        """Says why the best plan is best, or why the question's baseline is not."""
        request = v1.ExplainPlanRequest(question=to_question(question))
        return self._call("RecommendationService", "ExplainPlan", request, v1.ExplainPlanResponse, deadline)

    # Studies ----------------------------------------------------------------------------------------

    def create_study(self, question: Question, *, study_id: Optional[str] = None, request_id: Optional[str] = None,
                     deadline: Optional[float] = None) -> v1.Study:
        """Creates a study. Repeating a request id creates no second one; absent: a new id."""
        request = _requests.create_study(question, study_id, request_id)
        return self._call("TuningService", "CreateStudy", request, v1.CreateStudyResponse, deadline).study

    def get_study(self, study_id: str, *, deadline: Optional[float] = None) -> v1.GetStudyResponse:
        return self._call("TuningService", "GetStudy", v1.GetStudyRequest(study_id=study_id), v1.GetStudyResponse,
                          deadline)

    def list_studies(self, *, filter: Union[v1.StudyFilter, Json, None] = None, page_size: int = 0,
                     deadline: Optional[float] = None) -> Iterator[v1.Study]:
        """Yields all studies that match, newest first; the deadline is that of a page."""
        request = v1.ListStudiesRequest(page_size=page_size)
        if filter is not None:
            request.filter.CopyFrom(parse(v1.StudyFilter, filter, "filter"))
        return self._pages("TuningService", "ListStudies", request, v1.ListStudiesResponse, "studies", deadline)

    def watch_study(self, study_id: str, *, after_revision: int = 0, deadline: Optional[float] = None,
                    patience: float = DEFAULT_PATIENCE) -> Iterator[v1.WatchStudyResponse]:
        """Yields the events of a study after a revision until it ends, each once and in order. A
        connection that breaks, also by a restart of the server, is opened again until the server has
        been away for `patience` seconds. Without a deadline the watch lasts as long as the study."""
        watch = Watch(study_id, after_revision, deadline, patience)
        return self._watch(watch)

    def _watch(self, watch: Watch) -> Iterator[v1.WatchStudyResponse]:
        while True:
            method = self._method("TuningService", "WatchStudy")
            call = method(watch.request(), timeout=watch.stream_seconds(), metadata=self._access.metadata())
            try:
                for event in call:
                    if watch.receive(event):
                        yield event
                return
            except grpc.RpcError as error:
                wait = watch.wait_after(from_call(error))
            finally:
                call.cancel()
            time.sleep(wait)

    def cancel_study(self, study_id: str, *, deadline: Optional[float] = None) -> v1.Study:
        return self._call("TuningService", "CancelStudy", v1.CancelStudyRequest(study_id=study_id),
                          v1.CancelStudyResponse, deadline).study

    def delete_study(self, study_id: str, *, retract_measurements: bool = False, etag: Optional[str] = None,
                     request_id: Optional[str] = None, deadline: Optional[float] = None) -> v1.DeleteStudyResponse:
        """Deletes a study that has ended. Its measurements stay and count, unless they are retracted. A
        deletion without a request id gets a new one, so that it can be repeated."""
        return self._call("TuningService", "DeleteStudy",
                          _requests.delete_study(study_id, retract_measurements, etag, request_id),
                          v1.DeleteStudyResponse, deadline)

    def retry_trials(self, study_id: str, trial_numbers: Sequence[int] = (), *,
                     failure_classes: Sequence[str] = (), etag: Optional[str] = None,
                     request_id: Optional[str] = None, deadline: Optional[float] = None) -> v1.RetryTrialsResponse:
        """Queues a study that has ended or is paused to run failed trials again: those with the numbers, those
        whose newest attempt ended with one of the classes, or all."""
        return self._call("TuningService", "RetryTrials",
                          _requests.retry_trials(study_id, trial_numbers, failure_classes, etag, request_id),
                          v1.RetryTrialsResponse, deadline)

    def update_study(self, study_id: str, *, deadline: Optional[float] = None, **changes: Any) -> v1.Study:
        """Changes display_name, note, labels or removed_labels. A change without a request_id gets a new one,
        so that it can be repeated."""
        return self._call("TuningService", "UpdateStudy", _requests.update_study(study_id, changes),
                          v1.UpdateStudyResponse, deadline).study

    def list_plans(self, study_id: str, *, view: Optional[str] = None, page_size: int = 0,
                   deadline: Optional[float] = None) -> Iterator[v1.RankedPlan]:
        """Yields the plans that the study ranked, the baseline first and then the best."""
        request = v1.ListPlansRequest(study_id=study_id, page_size=page_size, view=view)
        return self._pages("TuningService", "ListPlans", request, v1.ListPlansResponse, "plans", deadline)

    def list_trials(self, study_id: str, *, page_size: int = 0, deadline: Optional[float] = None,
                    **filters: Any) -> Iterator[v1.Trial]:
        """Yields the plans that the study ran; `filters` are the fields of ListTrialsRequest."""
        request = parse(v1.ListTrialsRequest, {**filters, "study_id": study_id, "page_size": page_size})
        return self._pages("TuningService", "ListTrials", request, v1.ListTrialsResponse, "trials", deadline)

    def place_jobs(self, request: Union[v1.PlaceJobsRequest, Json], *,
                   deadline: Optional[float] = None) -> v1.PlacementAnswer:
        """Finds which of several jobs runs on which of several clusters (PlaceJobs). It may take a
        minute; nothing is recorded."""
        return self._call("PlacementService", "PlaceJobs", parse(v1.PlaceJobsRequest, request, "request"),
                          v1.PlaceJobsResponse, deadline).placement

    # Results and the server -------------------------------------------------------------------------

    def report_job(self, report: Union[v1.CreateJobReportRequest, Json], *,
                   deadline: Optional[float] = None) -> v1.CreateJobReportResponse:
        """Stores what a launched job achieved (CreateJobReport). A report without a request id gets
        a new one."""
        return self._call("FeedbackService", "CreateJobReport", _requests.job_report(report),
                          v1.CreateJobReportResponse, deadline)

    def list_job_reports(self, *, filter: Union[v1.MeasurementFilter, Json, None] = None, page_size: int = 0,
                         deadline: Optional[float] = None) -> Iterator[v1.Measurement]:
        """Yields all reports that match, newest first; the deadline is that of a page."""
        request = v1.ListJobReportsRequest(page_size=page_size)
        if filter is not None:
            request.filter.CopyFrom(parse(v1.MeasurementFilter, filter, "filter"))
        return self._pages("FeedbackService", "ListJobReports", request, v1.ListJobReportsResponse, "reports", deadline)

    def get_server_info(self, *, deadline: Optional[float] = None) -> v1.GetServerInfoResponse:
        return self._call("ServerService", "GetServerInfo", v1.GetServerInfoRequest(), v1.GetServerInfoResponse,
                          deadline)

    def list_chips(self, *, deadline: Optional[float] = None) -> List[v1.Chip]:
        answer = self._call("CatalogService", "ListChips", v1.ListChipsRequest(), v1.ListChipsResponse, deadline)
        return list(answer.chips)

    def call(self, service: str, method: str, request: Message, kind: Type[R], *,
             deadline: Optional[float] = None) -> R:
        """Calls any other method that answers with one message: call("TuningService", "GetTrial",
        v1.GetTrialRequest(...), v1.GetTrialResponse)."""
        return self._call(service, method, request, kind, deadline)
