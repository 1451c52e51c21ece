#include "server/plugins/conformance/conformance_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"
#include "server/plugins/protocol/protocol.h"
#include "server/plugins/wire/call_limits.h"
#include "server/plugins/wire/model_client.h"
#include "server/plugins/wire/question_wire.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;

constexpr std::chrono::milliseconds kPingTimeout(2'000);
constexpr double kNoise = 0.1;  // allowed for a model that does not claim to be deterministic

// Compares bits rather than values, so that one NaN equals another.
std::optional<std::uint64_t> Bits(std::optional<Seconds> time) {
  if (!time.has_value()) return std::nullopt;
  return std::bit_cast<std::uint64_t>(time->count());
}

}  // namespace

Finding Failed(std::string_view what, const absl::Status& status) {
  return Failed(fmt::format("{}: {} {}", what, absl::StatusCodeToString(status.code()),
                            std::string(status.message())));
}

void ConformanceSession::Stop() {
  stub_.reset();
  process_.reset();
}

absl::Status ConformanceSession::Restart() {
  Stop();
  ASSIGN_OR_RETURN(process_, ModelProcess::Start(spec_));
  RETURN_IF_ERROR(process_->WaitForSocket(start_limit_));
  const auto connected = ModelClient::Connect(process_->socket(), start_limit_);
  if (!connected.ok()) return process_->WithLastWords(connected.status());
  const std::unique_ptr<ModelClient>& client = *connected;
  ASSIGN_OR_RETURN(info_, client->AskInfo({.timeout = start_limit_}));
  RETURN_IF_ERROR(client->CheckHealth({.timeout = start_limit_}));
  ASSIGN_OR_RETURN(const auto channel, ConnectModel(process_->socket(), start_limit_));
  stub_ = wire::CostModelService::NewStub(channel);
  return absl::OkStatus();
}

absl::Status ConformanceSession::Ping() {
  if (!is_running()) return absl::UnavailableError("it does not run");
  wire::GetInfoRequest request;
  request.set_protocol_major(kProtocolMajor);
  request.set_protocol_minor(kProtocolMinor);
  return CallModel<wire::GetInfoResponse>(*stub_, &Stub::GetInfo, request,
                                          {.timeout = kPingTimeout})
      .status();
}

absl::StatusOr<std::int64_t> ConformanceSession::Open(const Problem& problem) {
  return Open(ToContext(problem));
}

absl::StatusOr<std::int64_t> ConformanceSession::Open(const wire::OpenContextRequest& request) {
  ASSIGN_OR_RETURN(const auto response,
                   CallModel<wire::OpenContextResponse>(*stub_, &Stub::OpenContext, request, {}));
  return response.context();
}

absl::Status ConformanceSession::Close(std::int64_t context) {
  wire::CloseContextRequest request;
  request.set_context(context);
  return CallModel<wire::CloseContextResponse>(*stub_, &Stub::CloseContext, request, {}).status();
}

absl::StatusOr<wire::EstimateBatchResponse> ConformanceSession::AskRaw(
    std::int64_t context, const wire::Candidates& candidates, const CallLimits& limits) {
  wire::EstimateBatchRequest request;
  request.set_context(context);
  *request.mutable_candidates() = candidates;
  request.set_with_breakdown(limits.with_breakdown);
  return CallModel<wire::EstimateBatchResponse>(*stub_, &Stub::EstimateBatch, request, limits);
}

ConformanceSession::Answers ConformanceSession::Ask(std::int64_t context,
                                                    const std::vector<ParallelPlan>& plans) {
  ASSIGN_OR_RETURN(const wire::EstimateBatchResponse response,
                   AskRaw(context, ToCandidates(plans, problem_), {.with_breakdown = true}));
  return FromWire(response, plans.size(), true);
}

ConformanceSession::Answers ConformanceSession::AskAbout(const Problem& problem,
                                                         const std::vector<ParallelPlan>& plans) {
  ASSIGN_OR_RETURN(const std::int64_t context, Open(problem));
  Answers answers = Ask(context, plans);
  RETURN_IF_ERROR(Close(context));
  return answers;
}

std::vector<ParallelPlan> ConformancePlans(const Problem& problem, std::size_t count) {
  constexpr int kPercents = 101;
  const int devices = DeviceCount(problem.cluster);
  std::vector<ParallelPlan> plans;
  for (int number = 0; plans.size() < count; ++number) {
    int rest = number;  // its digits are the choices; the first ones vary fastest
    const auto digit = [&rest](int choices) {
      return std::exchange(rest, rest / choices) % choices;
    };
    const auto recompute =
        digit(2) == 0 ? RecomputeGranularity::kNone : RecomputeGranularity::kFull;
    const int pipeline = 1 << digit(3);
    const int tensor = 1 << digit(4);
    const int micro_batch = 1 << digit(3);
    if (rest >= kPercents) break;
    if (tensor * pipeline > devices) continue;
    plans.push_back({.tensor_parallel = tensor,
                     .sequence_parallel = tensor > 1,
                     .pipeline_parallel = pipeline,
                     .data_parallel = devices / tensor / pipeline,
                     .micro_batch_size = micro_batch,
                     .zero_stage = 1,
                     .recompute = {.granularity = recompute},
                     .optimizer_offload_ratio = rest / 100.0});
  }
  return plans;
}

bool AreEqual(const PlanFigures& a, const PlanFigures& b) {
  return a.verdict == b.verdict && Bits(a.step_time) == Bits(b.step_time) &&
         Bits(a.step_time_low) == Bits(b.step_time_low) &&
         Bits(a.step_time_high) == Bits(b.step_time_high) && a.peak_memory == b.peak_memory &&
         std::ranges::equal(a.breakdown, b.breakdown, [](const auto& left, const auto& right) {
           return left.first == right.first && Bits(left.second) == Bits(right.second);
         });
}

bool AreAlike(const PlanFigures& a, const PlanFigures& b) {
  if (a.verdict != b.verdict) return false;
  const bool are_times = IsLikelyTime(a.step_time) && IsLikelyTime(b.step_time);
  return !are_times || std::abs(a.step_time / b.step_time - 1) <= kNoise;
}

bool IsLikelyTime(Seconds time) { return std::isfinite(time.count()) && time.count() > 0; }

}  // namespace meshwright
