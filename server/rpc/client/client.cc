#include "server/rpc/client/client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "meshwright/v1/catalog.grpc.pb.h"
#include "meshwright/v1/history.grpc.pb.h"
#include "meshwright/v1/placement.grpc.pb.h"
#include "meshwright/v1/service.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/convert/status_wire.h"
#include "server/rpc/calls/limits.h"

namespace meshwright {
namespace {

// The size of one part of a large EvaluatePlans. It is small enough that a cancel takes effect
// soon, and large enough that the overhead of the call is negligible.
constexpr int kCasesPerCall = 512;
constexpr std::size_t kBytesPerCall = 2'000'000;

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxRequestBytes);
  // A long list of bad fields, or of what would help if nothing fits, needs more than the default 8
  // KiB.
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxErrorBytes);
  // A proxy from the environment cannot reach servers on this machine.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

// Adds the token to each call. Call credentials of gRPC would need TLS, which a connection inside
// one machine does not have.
class TokenSender final : public grpc::experimental::Interceptor {
 public:
  explicit TokenSender(std::string field) : field_(std::move(field)) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      batch->GetSendInitialMetadata()->emplace("authorization", field_);
    }
    batch->Proceed();
  }

 private:
  const std::string field_;
};

class TokenSenders final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenSenders(const std::string& token) : field_("Bearer " + token) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* /*call*/) override {
    return new TokenSender(field_);
  }

 private:
  const std::string field_;
};

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address,
                                         const ClientIdentity& identity) {
  const auto credentials =
      identity.authority.empty()
          ? grpc::InsecureChannelCredentials()
          : grpc::SslCredentials({identity.authority, identity.private_key, identity.certificate});
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> senders;
  if (!identity.token.empty()) senders.push_back(std::make_unique<TokenSenders>(identity.token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, Arguments(),
                                                                 std::move(senders));
}

// One call's context, cancelled when the caller's stop token is.
class Context {
 public:
  explicit Context(const CallOptions& options)
      : on_stop_(options.cancel, [this] { context_.TryCancel(); }) {
    if (options.timeout.has_value()) {
      context_.set_deadline(std::chrono::system_clock::now() + *options.timeout);
    }
  }
  grpc::ClientContext* get() { return &context_; }

 private:
  grpc::ClientContext context_;
  std::stop_callback<std::function<void()>> on_stop_;
};

// Calls one unary method: Call<v1::XResponse>(stub, &Stub::X, request, options).
template <typename Response, typename Stub, typename Request>
absl::StatusOr<Response> Call(Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request, const CallOptions& options) {
  Context context(options);
  Response response;
  const grpc::Status status = (stub.*method)(context.get(), request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

absl::Status NoServer(const std::string& address) {
  return WithReason(
      absl::UnavailableError(fmt::format("no Meshwright server answers at '{}'", address)),
      "SERVER_UNREACHABLE");
}

}  // namespace

struct Client::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : recommendation(v1::RecommendationService::NewStub(channel)),
        tuning(v1::TuningService::NewStub(channel)),
        catalog(v1::CatalogService::NewStub(channel)),
        server(v1::ServerService::NewStub(channel)),
        feedback(v1::FeedbackService::NewStub(channel)),
        history(v1::HistoryService::NewStub(channel)),
        placement(v1::PlacementService::NewStub(channel)) {}

  std::unique_ptr<v1::RecommendationService::Stub> recommendation;
  std::unique_ptr<v1::TuningService::Stub> tuning;
  std::unique_ptr<v1::CatalogService::Stub> catalog;
  std::unique_ptr<v1::ServerService::Stub> server;
  std::unique_ptr<v1::FeedbackService::Stub> feedback;
  std::unique_ptr<v1::HistoryService::Stub> history;
  std::unique_ptr<v1::PlacementService::Stub> placement;
};

Client::Client(std::unique_ptr<Stubs> stubs) : stubs_(std::move(stubs)) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

absl::StatusOr<Client> Client::Connect(const std::string& address,
                                       std::chrono::milliseconds timeout) {
  return Connect(address, ClientIdentity(), timeout);
}

absl::StatusOr<Client> Client::Connect(const std::string& address, const ClientIdentity& identity,
                                       std::chrono::milliseconds timeout) {
  const auto channel = ChannelTo(address, identity);
  const auto deadline = std::chrono::system_clock::now() + timeout;
  for (;;) {
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return Client(std::make_unique<Stubs>(channel));
    // Reports a refused connection at once; gRPC would retry until the deadline.
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN ||
        !channel->WaitForStateChange(state, deadline)) {
      return NoServer(address);
    }
  }
}

absl::StatusOr<v1::RecommendResponse> Client::Recommend(const v1::RecommendRequest& request,
                                                        const CallOptions& options) {
  return Call(*stubs_->recommendation, &v1::RecommendationService::Stub::Recommend, request,
              options);
}

absl::StatusOr<v1::EvaluatePlansResponse> Client::EvaluatePlans(
    const v1::EvaluatePlansRequest& request, const CallOptions& options) {
  // Only the call that has all cases of a group or a pair can compare them.
  const bool compares =
      request.pairs_size() > 0 ||
      std::ranges::any_of(request.cases(), [](const auto& one) { return one.has_group(); });
  if (compares) {
    return Call(*stubs_->recommendation, &v1::RecommendationService::Stub::EvaluatePlans, request,
                options);
  }
  v1::EvaluatePlansResponse all;
  int next = 0;
  do {
    v1::EvaluatePlansRequest part;
    *part.mutable_history() = request.history();
    if (request.has_cost_model()) *part.mutable_cost_model() = request.cost_model();
    std::size_t bytes = 0;
    while (next < request.cases_size() && part.cases_size() < kCasesPerCall &&
           bytes < kBytesPerCall) {
      bytes += request.cases(next).ByteSizeLong();
      *part.add_cases() = request.cases(next++);
    }
    ASSIGN_OR_RETURN(v1::EvaluatePlansResponse answers,
                     Call(*stubs_->recommendation, &v1::RecommendationService::Stub::EvaluatePlans,
                          part, options));
    all.MergeFrom(answers);
  } while (next < request.cases_size());
  return all;
}

absl::StatusOr<v1::ExplainPlanResponse> Client::ExplainPlan(const v1::ExplainPlanRequest& request,
                                                            const CallOptions& options) {
  return Call(*stubs_->recommendation, &v1::RecommendationService::Stub::ExplainPlan, request,
              options);
}

absl::StatusOr<v1::SweepResponse> Client::Sweep(const v1::SweepRequest& request,
                                                const CallOptions& options) {
  return Call(*stubs_->recommendation, &v1::RecommendationService::Stub::Sweep, request, options);
}

absl::StatusOr<v1::PlaceJobsResponse> Client::PlaceJobs(const v1::PlaceJobsRequest& request,
                                                        const CallOptions& options) {
  return Call(*stubs_->placement, &v1::PlacementService::Stub::PlaceJobs, request, options);
}

absl::StatusOr<v1::CreateStudyResponse> Client::CreateStudy(const v1::CreateStudyRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::CreateStudy, request, {});
}

absl::StatusOr<v1::GetStudyResponse> Client::GetStudy(const std::string& study_id) {
  v1::GetStudyRequest request;
  request.set_study_id(study_id);
  return Call(*stubs_->tuning, &v1::TuningService::Stub::GetStudy, request, {});
}

absl::StatusOr<v1::ListStudiesResponse> Client::ListStudies(const v1::ListStudiesRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::ListStudies, request, {});
}

absl::StatusOr<v1::CancelStudyResponse> Client::CancelStudy(const std::string& study_id) {
  v1::CancelStudyRequest request;
  request.set_study_id(study_id);
  return CancelStudy(request);
}

absl::StatusOr<v1::CancelStudyResponse> Client::CancelStudy(const v1::CancelStudyRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::CancelStudy, request, {});
}

absl::StatusOr<v1::PauseStudyResponse> Client::PauseStudy(const std::string& study_id) {
  v1::PauseStudyRequest request;
  request.set_study_id(study_id);
  return PauseStudy(request);
}

absl::StatusOr<v1::PauseStudyResponse> Client::PauseStudy(const v1::PauseStudyRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::PauseStudy, request, {});
}

absl::StatusOr<v1::ResumeStudyResponse> Client::ResumeStudy(const std::string& study_id) {
  v1::ResumeStudyRequest request;
  request.set_study_id(study_id);
  return ResumeStudy(request);
}

absl::StatusOr<v1::ResumeStudyResponse> Client::ResumeStudy(const v1::ResumeStudyRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::ResumeStudy, request, {});
}

absl::StatusOr<v1::DeleteStudyResponse> Client::DeleteStudy(const v1::DeleteStudyRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::DeleteStudy, request, {});
}

absl::StatusOr<v1::RetryTrialsResponse> Client::RetryTrials(const v1::RetryTrialsRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::RetryTrials, request, {});
}

absl::StatusOr<v1::UpdateStudyResponse> Client::UpdateStudy(const v1::UpdateStudyRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::UpdateStudy, request, {});
}

absl::StatusOr<v1::ListAttemptsResponse> Client::ListAttempts(
    const v1::ListAttemptsRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::ListAttempts, request, {});
}

absl::StatusOr<v1::ListPlansResponse> Client::ListPlans(const v1::ListPlansRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::ListPlans, request, {});
}

absl::StatusOr<v1::GetPlanResponse> Client::GetPlan(const v1::GetPlanRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::GetPlan, request, {});
}

absl::StatusOr<v1::ComparePlansResponse> Client::ComparePlans(
    const v1::ComparePlansRequest& request, const CallOptions& options) {
  return Call(*stubs_->recommendation, &v1::RecommendationService::Stub::ComparePlans, request,
              options);
}

absl::StatusOr<v1::ComparePlansResponse> Client::CompareStudyPlans(
    const v1::CompareStudyPlansRequest& request, const CallOptions& options) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::CompareStudyPlans, request, options);
}

absl::StatusOr<v1::GetTrialResponse> Client::GetTrial(const v1::GetTrialRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::GetTrial, request, {});
}

absl::StatusOr<v1::ListParetoTrialsResponse> Client::ListParetoTrials(
    const v1::ListParetoTrialsRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::ListParetoTrials, request, {});
}

absl::StatusOr<v1::GetTrialLogsResponse> Client::GetTrialLogs(
    const v1::GetTrialLogsRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::GetTrialLogs, request, {});
}

absl::StatusOr<v1::ListTrialsResponse> Client::ListTrials(const v1::ListTrialsRequest& request) {
  return Call(*stubs_->tuning, &v1::TuningService::Stub::ListTrials, request, {});
}

absl::Status Client::WatchStudy(const v1::WatchStudyRequest& request, const WatchSink& sink,
                                const CallOptions& options) {
  Context context(options);
  const auto reader = stubs_->tuning->WatchStudy(context.get(), request);
  v1::WatchStudyResponse event;
  bool has_enough = false;
  while (!has_enough && reader->Read(&event)) has_enough = !sink(event);
  if (has_enough) context.get()->TryCancel();
  const grpc::Status status = reader->Finish();
  return has_enough ? absl::OkStatus() : FromGrpc(status);
}

absl::StatusOr<v1::CreateJobReportResponse> Client::CreateJobReport(
    const v1::CreateJobReportRequest& request) {
  return Call(*stubs_->feedback, &v1::FeedbackService::Stub::CreateJobReport, request, {});
}

absl::StatusOr<v1::BatchCreateJobReportsResponse> Client::BatchCreateJobReports(
    const v1::BatchCreateJobReportsRequest& request) {
  return Call(*stubs_->feedback, &v1::FeedbackService::Stub::BatchCreateJobReports, request, {});
}

absl::StatusOr<v1::ListJobReportsResponse> Client::ListJobReports(
    const v1::ListJobReportsRequest& request) {
  return Call(*stubs_->feedback, &v1::FeedbackService::Stub::ListJobReports, request, {});
}

absl::StatusOr<v1::ListMeasurementsResponse> Client::ListMeasurements(
    const v1::ListMeasurementsRequest& request) {
  return Call(*stubs_->history, &v1::HistoryService::Stub::ListMeasurements, request, {});
}

absl::StatusOr<v1::GetMeasurementResponse> Client::GetMeasurement(const std::string& id) {
  v1::GetMeasurementRequest request;
  request.set_measurement_id(id);
  return Call(*stubs_->history, &v1::HistoryService::Stub::GetMeasurement, request, {});
}

absl::StatusOr<v1::RetractMeasurementResponse> Client::RetractMeasurement(
    const v1::RetractMeasurementRequest& request) {
  return Call(*stubs_->history, &v1::HistoryService::Stub::RetractMeasurement, request, {});
}

absl::StatusOr<v1::ListCalibrationsResponse> Client::ListCalibrations(
    const v1::ListCalibrationsRequest& request) {
  return Call(*stubs_->history, &v1::HistoryService::Stub::ListCalibrations, request, {});
}

absl::StatusOr<v1::GetCalibrationResponse> Client::GetCalibration(const std::string& id) {
  v1::GetCalibrationRequest request;
  request.set_calibration_id(id);
  return Call(*stubs_->history, &v1::HistoryService::Stub::GetCalibration, request, {});
}

absl::Status Client::ExportHistory(const v1::ExportHistoryRequest& request, const PartSink& sink) {
  Context context({});
  const auto reader = stubs_->history->ExportHistory(context.get(), request);
  v1::ExportHistoryResponse part;
  absl::Status taken;
  while (taken.ok() && reader->Read(&part)) taken = sink(part.lines());
  if (!taken.ok()) context.get()->TryCancel();
  const grpc::Status status = reader->Finish();
  return taken.ok() ? FromGrpc(status) : taken;
}

absl::StatusOr<v1::ImportHistoryResponse> Client::ImportHistory(
    const v1::ImportHistoryRequest& options, const PartSource& source) {
  Context context({});
  v1::ImportHistoryResponse response;
  const auto writer = stubs_->history->ImportHistory(context.get(), &response);
  v1::ImportHistoryRequest request = options;
  bool is_open = true;
  do {
    request.set_lines(source());
    is_open = writer->Write(request);  // sent even if it is empty, as it has the options
  } while (is_open && !request.lines().empty());
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) return FromGrpc(status);
  return response;
}

absl::StatusOr<v1::BackupStoreResponse> Client::BackupStore() {
  return Call(*stubs_->history, &v1::HistoryService::Stub::BackupStore, v1::BackupStoreRequest(),
              {});
}

absl::StatusOr<v1::ListAuditEventsResponse> Client::ListAuditEvents(
    const v1::ListAuditEventsRequest& request) {
  return Call(*stubs_->history, &v1::HistoryService::Stub::ListAuditEvents, request, {});
}

absl::StatusOr<v1::ListChipsResponse> Client::ListChips() {
  return Call(*stubs_->catalog, &v1::CatalogService::Stub::ListChips, v1::ListChipsRequest(), {});
}

absl::StatusOr<v1::GetChipResponse> Client::GetChip(const std::string& id) {
  v1::GetChipRequest request;
  request.set_chip_id(id);
  return Call(*stubs_->catalog, &v1::CatalogService::Stub::GetChip, request, {});
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo() {
  return Call(*stubs_->server, &v1::ServerService::Stub::GetServerInfo, v1::GetServerInfoRequest(),
              {});
}

absl::StatusOr<v1::ListCallersResponse> Client::ListCallers() {
  return Call(*stubs_->server, &v1::ServerService::Stub::ListCallers, v1::ListCallersRequest(), {});
}

absl::StatusOr<v1::ListCostModelsResponse> Client::ListCostModels() {
  return Call(*stubs_->server, &v1::ServerService::Stub::ListCostModels,
              v1::ListCostModelsRequest(), {});
}

}  // namespace meshwright
