#include "server/plugins/wire/model_client.h"

#include <fmt/format.h>
#include <grpc/health/v1/health.grpc.pb.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/plugins/protocol/protocol.h"
#include "server/plugins/wire/model_stub.h"
#include "server/plugins/wire/question_wire.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;
namespace health = grpc::health::v1;

// An answer of 1,024 candidates, each with 64 lines of the longest names, takes a third of this.
constexpr int kMaxAnswerBytes = 16 << 20;
constexpr int kLeastBackoffMs = 20;
constexpr std::size_t kLongestMessage = 500;

// For each text about the model itself.
constexpr std::size_t kLongestInfo = 256;
constexpr int kMaxInfos = 256;
// For an explanation.
constexpr int kMaxLines = 256;
// For a question; every answer to it repeats them.
constexpr int kMaxWarnings = 16;

constexpr std::chrono::milliseconds kConnectLook(50);  // how often the stop token is looked at

std::string Info(const std::string& text) {
  return CleanText(text, {.longest_bytes = kLongestInfo});
}

std::vector<std::string> Infos(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  const int count = std::min(texts.size(), kMaxInfos);
  std::vector<std::string> infos;
  infos.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) infos.push_back(Info(texts[i]));
  return infos;
}

std::vector<std::string> Lines(const google::protobuf::RepeatedPtrField<std::string>& texts,
                               int most) {
  std::vector<std::string> lines;
  for (int i = 0; i < std::min(texts.size(), most); ++i) lines.push_back(CleanText(texts[i], {}));
  return lines;
}

ModelInfo InfoOf(const wire::GetInfoResponse& r) {
  return {.protocol_major = r.protocol_major(),
          .protocol_minor = r.protocol_minor(),
          .name = Info(r.name()),
          .vendor = Info(r.vendor()),
          .version = Info(r.version()),
          .description = Info(r.description()),
          .chips = Infos(r.chips()),
          .precisions = Infos(r.precisions()),
          .operators = Infos(r.operators()),
          .is_deterministic = r.is_deterministic(),
          .max_batch_size = r.max_batch_size(),
          .max_concurrent_batches = r.max_concurrent_batches(),
          .candidates_per_second = r.candidates_per_second(),
          .has_explain = r.has_explain(),
          .has_lower_bound = r.has_lower_bound(),
          .has_calibration = r.has_calibration()};
}

absl::Status CheckInfo(const ModelInfo& info) {
  const auto refused = [](const std::string& message) {
    return WithReason(absl::FailedPreconditionError(message), "COST_MODEL_PROTOCOL");
  };
  if (info.protocol_major != kProtocolMajor) {
    return refused(fmt::format("the model speaks protocol {}.{}; this program speaks {}.{}",
                               info.protocol_major, info.protocol_minor, kProtocolMajor,
                               kProtocolMinor));
  }
  if (info.name.empty() || info.version.empty()) {
    return refused("the model states no name or no version");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FromModel(const grpc::Status& status) {
  // The codes are the same numbers. The words of a foreign program are not repeated at length.
  return {static_cast<absl::StatusCode>(status.error_code()),
          CleanText(status.error_message(), {.longest_bytes = kLongestMessage})};
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectModel(const std::string& socket,
                                                            std::chrono::milliseconds timeout,
                                                            const std::stop_token& cancel) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Decompression is off: a few bytes may unpack to a gigabyte before any limit looks at them.
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // A program that has made its socket but does not listen yet is tried again soon.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kLeastBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kLeastBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 10 * kLeastBackoffMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto channel =
      grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
  const auto end = std::chrono::system_clock::now() + timeout;
  for (auto now = end - timeout; now < end; now = std::chrono::system_clock::now()) {
    if (channel->WaitForConnected(std::min(now + kConnectLook, end))) return channel;
    if (cancel.stop_requested()) return absl::CancelledError("cancelled");
  }
  return absl::UnavailableError(
      fmt::format("the model made its socket, but did not answer by gRPC there within {:.3g} s",
                  std::chrono::duration<double>(timeout).count()));
}

struct ModelClient::Channel {
  explicit Channel(const std::shared_ptr<grpc::Channel>& channel)
      : model(wire::CostModelService::NewStub(channel)), health(health::Health::NewStub(channel)) {}
  std::unique_ptr<wire::CostModelService::Stub> model;
  std::unique_ptr<health::Health::Stub> health;
};

ModelClient::ModelClient(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}
ModelClient::~ModelClient() = default;

absl::StatusOr<std::unique_ptr<ModelClient>> ModelClient::Connect(const std::string& socket,
                                                                  std::chrono::milliseconds timeout,
                                                                  const std::stop_token& cancel) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   ConnectModel(socket, timeout, cancel));
  return std::unique_ptr<ModelClient>(new ModelClient(std::make_unique<Channel>(channel)));
}

absl::StatusOr<ModelInfo> ModelClient::AskInfo(const CallLimits& limits) {
  wire::GetInfoRequest request;
  request.set_protocol_major(kProtocolMajor);
  request.set_protocol_minor(kProtocolMinor);
  request.set_caller("meshwright");
  ASSIGN_OR_RETURN(
      const wire::GetInfoResponse response,
      CallModel(*channel_->model, &wire::CostModelService::Stub::GetInfo, request, limits));
  return InfoOf(response);
}

absl::StatusOr<ModelInfo> ModelClient::GetInfo(const CallLimits& limits) {
  ASSIGN_OR_RETURN(ModelInfo info, AskInfo(limits));
  if (absl::Status checked = CheckInfo(info); !checked.ok()) return checked;
  return info;
}

absl::Status ModelClient::CheckHealth(const CallLimits& limits) {
  ASSIGN_OR_RETURN(const health::HealthCheckResponse response,
                   CallModel(*channel_->health, &health::Health::Stub::Check,
                             health::HealthCheckRequest(), limits));
  if (response.status() == health::HealthCheckResponse::SERVING) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("it is not serving: its health is {}",
                  health::HealthCheckResponse::ServingStatus_Name(response.status())));
}

absl::StatusOr<OpenedContext> ModelClient::OpenContext(const Problem& problem,
                                                       const CalibrationParameters& calibration,
                                                       const CallLimits& limits) {
  ASSIGN_OR_RETURN(const wire::OpenContextResponse response,
                   CallModel(*channel_->model, &wire::CostModelService::Stub::OpenContext,
                             ToContext(problem, calibration), limits));
  return OpenedContext{.handle = response.context(),
                       .warnings = Lines(response.warnings(), kMaxWarnings)};
}

absl::Status ModelClient::CloseContext(std::int64_t context, const CallLimits& limits) {
  wire::CloseContextRequest request;
  request.set_context(context);
  return CallModel(*channel_->model, &wire::CostModelService::Stub::CloseContext, request, limits)
      .status();
}

absl::StatusOr<std::vector<PlanFigures>> ModelClient::EstimateBatch(
    std::int64_t context, std::span<const ParallelPlan> plans, const Problem& problem,
    const CallLimits& limits) {
  wire::EstimateBatchRequest request;
  request.set_context(context);
  request.set_with_breakdown(limits.with_breakdown);
  *request.mutable_candidates() = ToCandidates(plans, problem);
  ASSIGN_OR_RETURN(
      const wire::EstimateBatchResponse response,
      CallModel(*channel_->model, &wire::CostModelService::Stub::EstimateBatch, request, limits));
  return FromWire(response, plans.size(), limits.with_breakdown);
}

absl::StatusOr<std::vector<double>> ModelClient::LowerBound(std::int64_t context,
                                                            std::span<const ParallelPlan> plans,
                                                            const Problem& problem,
                                                            const CallLimits& limits) {
  wire::LowerBoundRequest request;
  request.set_context(context);
  *request.mutable_candidates() = ToCandidates(plans, problem);
  ASSIGN_OR_RETURN(
      const wire::LowerBoundResponse response,
      CallModel(*channel_->model, &wire::CostModelService::Stub::LowerBound, request, limits));
  const auto& bounds = response.step_time_seconds();
  if (static_cast<std::size_t>(bounds.size()) == plans.size()) {
    return std::vector<double>(bounds.begin(), bounds.end());
  }
  return absl::InternalError(
      fmt::format("LowerBound's answer has {} entries; must have {}", bounds.size(), plans.size()));
}

absl::StatusOr<std::vector<std::string>> ModelClient::Explain(std::int64_t context,
                                                              const ParallelPlan& plan,
                                                              const Problem& problem,
                                                              const CallLimits& limits) {
  wire::ExplainRequest request;
  request.set_context(context);
  *request.mutable_candidate() = ToCandidates(std::span(&plan, 1), problem);
  ASSIGN_OR_RETURN(
      const wire::ExplainResponse response,
      CallModel(*channel_->model, &wire::CostModelService::Stub::Explain, request, limits));
  return Lines(response.lines(), kMaxLines);
}

absl::StatusOr<std::vector<CalibrationTest>> ModelClient::ListCalibrationTests(
    const std::string& chip, const CallLimits& limits) {
  wire::ListCalibrationTestsRequest request;
  request.set_chip(chip);
  ASSIGN_OR_RETURN(const wire::ListCalibrationTestsResponse response,
                   CallModel(*channel_->model, &wire::CostModelService::Stub::ListCalibrationTests,
                             request, limits));
  std::vector<CalibrationTest> tests;
  for (int i = 0; i < std::min(response.tests_size(), kMaxInfos); ++i) {
    const wire::CalibrationTest& test = response.tests(i);
    tests.push_back(
        {.name = Info(test.name()), .what = Info(test.what()), .unit = Info(test.unit())});
  }
  return tests;
}

absl::StatusOr<FittedCalibration> ModelClient::FitCalibration(
    const std::string& chip, std::span<const TestMeasurement> measurements,
    const CallLimits& limits) {
  wire::FitCalibrationRequest request;
  request.set_chip(chip);
  for (const TestMeasurement& measured : measurements) {
    wire::CalibrationMeasurement& out = *request.add_measurements();
    out.set_name(measured.name);
    out.set_value(measured.value);
  }
  ASSIGN_OR_RETURN(
      wire::FitCalibrationResponse response,
      CallModel(*channel_->model, &wire::CostModelService::Stub::FitCalibration, request, limits));
  const std::size_t size = response.calibration().size();
  if (size == 0 || size > kMaxParameterBytes) {
    return absl::FailedPreconditionError(fmt::format(
        "FitCalibration gave {} bytes of parameters; must be 1 to {}", size, kMaxParameterBytes));
  }
  FittedCalibration fitted;
  fitted.parameters = {.version = Info(response.version()),
                       .bytes = std::move(*response.mutable_calibration())};
  const double error = response.held_out_error_ratio();
  if (std::isfinite(error) && error > 0) fitted.held_out_error_ratio = error;
  return fitted;
}

}  // namespace meshwright
