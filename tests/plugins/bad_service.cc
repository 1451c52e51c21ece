#include "tests/plugins/bad_service.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "meshwright/costmodel/v1/costmodel.grpc.pb.h"
#include "tests/plugins/bad_answers.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;
using std::chrono::milliseconds;

// The mode in which bounds hold until the model is calibrated.
constexpr char kLateBounds[] = "calibration_bounds_high";
constexpr int kUsualBatch = 1'024;
constexpr std::size_t kBatchLeak = 64 << 20;
constexpr std::size_t kContextLeak = 512 << 10;

void Leak(std::size_t bytes) {
  static std::mutex mutex;
  static std::vector<char*> kept;
  char* const block = new char[bytes];
  std::memset(block, 1, bytes);
  const std::lock_guard lock(mutex);
  kept.push_back(block);
}

grpc::Status Invalid(const std::string& message) {
  return {grpc::StatusCode::INVALID_ARGUMENT, message};
}

// Returns true if the call is cancelled within the time that a large batch takes in modes
// "cancel_...". It is long, so that calls that are given up within it arrive before it is over.
bool IsCancelledSoon(const grpc::ServerContext& call) {
  for (int i = 0; i < 60 && !call.IsCancelled(); ++i) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  return call.IsCancelled();
}

// Returns once the caller has given the call up.
void WaitForCancel(const grpc::ServerContext& call) {
  while (!call.IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
}

// "\u5185\u5b58", memory, 200 times: 1,200 bytes.
std::string LongReason() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "\u5185\u5b58";
  return text;
}

void AddReason(int index, const std::string& text, wire::EstimateBatchResponse& response) {
  if (text.empty()) return;
  wire::CandidateReason& reason = *response.add_reasons();
  reason.set_index(index);
  reason.set_text(text);
}

class BadService final : public wire::CostModelService::Service {
 public:
  BadService(std::string mode, std::string folder)
      : mode_(std::move(mode)),
        folder_(std::move(folder)),
        start_(1e-10 * static_cast<double>(std::random_device()()) /
               std::numeric_limits<std::random_device::result_type>::max()) {}

  grpc::Status GetInfo(grpc::ServerContext* call, const wire::GetInfoRequest* request,
                       wire::GetInfoResponse* response) override {
    if (is_deaf_.exchange(false)) WaitForCancel(*call);
    if (mode_ == "version_strict" && request->protocol_minor() > 0) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "only 1.0"};
    }
    response->set_protocol_major(1);
    if (mode_ == "wrong_version") response->set_protocol_major(9);
    if (mode_ == "version_echo") response->set_protocol_major(request->protocol_major());
    SetNames(*response);
    response->set_is_deterministic(true);
    response->set_max_concurrent_batches(mode_ == "racing" ? 4 : 0);
    if (mode_.starts_with("batch")) response->set_max_batch_size(kStatedBatch);
    if (mode_ == "promise") response->set_candidates_per_second(1e12);
    response->set_has_lower_bound(mode_.starts_with("bounds") || mode_ == kLateBounds);
    response->set_has_explain(has_explain());
    response->set_has_calibration(has_calibration());
    return grpc::Status::OK;
  }

  grpc::Status OpenContext(grpc::ServerContext* /*context*/,
                           const wire::OpenContextRequest* request,
                           wire::OpenContextResponse* response) override {
    if (mode_ == "crash_on_context") std::abort();
    const bool is_precision = request->workload().precision() == "bf16";
    if (mode_ == "refuse_wrongly" && !is_precision) return {grpc::StatusCode::INTERNAL, "no"};
    if (const std::string why = WhyRefused(mode_, *request); !why.empty()) return Invalid(why);
    for (int i = 0; mode_ == "warnings" && i < 20; ++i) {
      response->add_warnings("\x1B[2Jassumes much, " + std::to_string(i));
    }
    if (mode_ == "leak_contexts") Leak(kContextLeak);
    const std::lock_guard lock(mutex_);
    if (mode_ != "context_same") ++last_;
    contexts_[last_] = ContextOf(mode_, *request);
    response->set_context(last_);
    return grpc::Status::OK;
  }

  grpc::Status CloseContext(grpc::ServerContext* /*context*/,
                            const wire::CloseContextRequest* request,
                            wire::CloseContextResponse* /*response*/) override {
    const std::lock_guard lock(mutex_);
    if (mode_ != "context_kept") contexts_.erase(request->context());
    if (mode_ == "context_shared") contexts_.clear();
    return grpc::Status::OK;
  }

  grpc::Status EstimateBatch(grpc::ServerContext* call, const wire::EstimateBatchRequest* request,
                             wire::EstimateBatchResponse* response) override {
    const wire::Candidates& candidates = request->candidates();
    const bool is_among_others = ++callers_ > 1;
    Misbehave(candidates.count());
    if (mode_.starts_with("cancel_") && candidates.count() > kUsualBatch) WorkLong(*call);
    grpc::Status status = Fill(*request, is_among_others, *response);
    --callers_;
    return status;
  }

  grpc::Status Explain(grpc::ServerContext* /*context*/, const wire::ExplainRequest* request,
                       wire::ExplainResponse* response) override {
    if (!has_explain()) return {grpc::StatusCode::UNIMPLEMENTED, "none"};
    if (mode_ == "explain_crash") std::abort();
    if (mode_ == "explain_hang") Hang(folder_);
    if (mode_ != "explain_many" && request->candidate().count() != 1) return Invalid("not one");
    const int lines = mode_ == "explain_silent" ? 0 : 1'000;
    for (int i = 0; i < lines; ++i) response->add_lines("\x1B[2Jline " + std::string(1'000, 'x'));
    return grpc::Status::OK;
  }

  grpc::Status LowerBound(grpc::ServerContext* /*context*/, const wire::LowerBoundRequest* request,
                          wire::LowerBoundResponse* response) override {
    if (mode_ == "bounds_crash") std::abort();
    if (mode_ == "bounds_refuse_first" && !has_refused_.exchange(true)) {
      return Invalid("no bounds of this problem");
    }
    const std::optional<BadContext> context = Find(request->context());
    if (!context.has_value()) return NoContext();
    for (int i = 0; i < request->candidates().count(); ++i) {
      const double time = Answer(mode_, *context, request->candidates(), i).seconds;
      double bound = 0.99 * time;
      if (mode_ == "bounds_high" || (mode_ == kLateBounds && context->is_calibrated)) {
        bound = 10 * time;
      }
      if (mode_ == "bounds_nan") bound = i % 2 == 0 ? std::nan("") : -1;
      if (mode_ == "bounds_infinite") bound = std::numeric_limits<double>::infinity();
      response->add_step_time_seconds(bound);
    }
    if (mode_ == "bounds_wrong_shape") response->add_step_time_seconds(1);
    return grpc::Status::OK;
  }

  grpc::Status ListCalibrationTests(grpc::ServerContext* /*context*/,
                                    const wire::ListCalibrationTestsRequest* /*request*/,
                                    wire::ListCalibrationTestsResponse* response) override {
    if (!has_calibration()) return {grpc::StatusCode::UNIMPLEMENTED, "none"};
    wire::CalibrationTest& test = *response->add_tests();
    test.set_name("rate");
    if (mode_ != "calibration_unit") test.set_unit("flops_per_second");
    return grpc::Status::OK;
  }

  grpc::Status FitCalibration(grpc::ServerContext* /*context*/,
                              const wire::FitCalibrationRequest* request,
                              wire::FitCalibrationResponse* response) override {
    if (mode_ == "calibration_crash") std::abort();
    const bool is_number = std::isfinite(request->measurements(0).value());
    if (mode_ != "calibration_guess" && !is_number) return Invalid("not a number");
    const std::size_t size = mode_ == "calibration_large" ? (1 << 20) + 1 : 8;
    response->set_calibration(std::string(mode_ == "calibration_empty" ? 0 : size, 'p'));
    return grpc::Status::OK;
  }

 private:
  [[nodiscard]] bool has_explain() const { return mode_.starts_with("explain"); }
  [[nodiscard]] bool has_calibration() const { return mode_.starts_with("calibration"); }
  static grpc::Status NoContext() { return {grpc::StatusCode::NOT_FOUND, "not open"}; }

  void SetNames(wire::GetInfoResponse& response) const {
    std::string name = "bad-" + mode_;
    std::ranges::replace(name, '_', '-');
    response.set_name(mode_ == "handshake_name" ? "The Bad Model" : name);
    response.set_vendor("Tests");
    response.set_version("0.0.1");
    if (mode_ == "version_empty") response.clear_version();
    if (mode_ == "version_garbled") response.set_version("\x1B[2J\n1");
    if (mode_ == "long_info") response.set_description("\x1B[2J" + std::string(100'000, 'x'));
    if (mode_ == "guess_chips") {
      response.add_chips("acme-x*");
      response.add_chips("other");
    } else if (mode_ != "handshake_chips") {
      response.add_chips("*");
    }
    if (mode_ != "handshake_precisions") response.add_precisions("bf16");
    if (mode_ != "guess_silently") response.add_operators("dense");
    for (int i = 0; mode_ == "long_info" && i < 10'000; ++i) response.add_operators("gemm");
  }

  std::optional<BadContext> Find(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = contexts_.find(id);
    const auto latest = contexts_.find(last_);
    const bool is_known = found != contexts_.end();
    const bool takes_latest = mode_ == (is_known ? "context_last" : "context_unknown");
    if (takes_latest && latest != contexts_.end()) return latest->second;
    return is_known ? std::optional(found->second) : std::nullopt;
  }

  void Misbehave(int count) {
    const int batch = ++batches_;
    if (mode_ == "hang") Hang(folder_);
    if (mode_ == "crash") std::abort();
    if (mode_ == "leak") Leak(kBatchLeak);
    if (mode_ == "racing") std::this_thread::sleep_for(milliseconds(5));
    if (mode_ == "slow" && count >= 1'000) std::this_thread::sleep_for(milliseconds(300));
    if (mode_ == "slow_to_warm" && batch == 1) std::this_thread::sleep_for(milliseconds(1'200));
    if (mode_ == "crash_third_batch" && batch == 3) raise(SIGSEGV);
    if (mode_ == "flood") {
      const std::string line(4096, 'x');
      for (int i = 0; i < 1000; ++i) std::puts(line.c_str());
    }
  }

  // Works for long, as modes do in which a call is given up meanwhile.
  void WorkLong(const grpc::ServerContext& call) {
    if (!IsCancelledSoon(call)) return;
    if (mode_ == "cancel_crash") std::abort();
    if (mode_ == "cancel_deaf") is_deaf_ = true;
    const std::lock_guard lock(mutex_);
    if (mode_ == "cancel_forgets") contexts_.clear();
  }

  void MisbehaveOnPoison() const {
    if (mode_ == "crash_on_candidate" || mode_ == "slow_to_warm") std::abort();
    if (mode_ == "hang_on_candidate") Hang(folder_);
  }

  // Returns the factor that the batch, the process or another caller puts on each time.
  [[nodiscard]] double FactorOf(const wire::Candidates& candidates, bool is_among_others) const {
    constexpr double kBit = 1e-12;
    if (mode_ == "nondeterministic") return 1 + kBit * (batches_ % 1'000);
    if (mode_ == "depends_on_batch") return 1 + kBit * candidates.count();
    if (mode_ == "depends_on_process") return 1 + start_;
    if (mode_ == "bad_row_spoils" && HasBadRow(candidates)) return 2;
    if (mode_ == "racing" && is_among_others) return 1.01;
    return 1;
  }

  grpc::Status Fill(const wire::EstimateBatchRequest& request, bool is_among_others,
                    wire::EstimateBatchResponse& response) {
    const wire::Candidates& candidates = request.candidates();
    const std::optional<BadContext> context = Find(request.context());
    if (!context.has_value()) return NoContext();
    const std::string why = WhyRefusedBatch(mode_, candidates);
    if (!why.empty()) return Invalid(why);
    const double factor = FactorOf(candidates, is_among_others);
    for (int i = 0; i < candidates.count(); ++i) {
      const bool is_poison = IsPoison(candidates, i);
      if (is_poison) MisbehaveOnPoison();
      BadAnswer answer = Answer(mode_, *context, candidates, i);
      if (mode_ == "chinese" && is_poison) {
        answer = {.status = wire::CANDIDATE_STATUS_ERROR, .reason = LongReason()};
      }
      AddAnswer(i, answer, factor, response);
    }
    if (mode_ == "lie_breakdown") response.add_breakdown_names("matmul");
    if (mode_ == "wrong_shape") response.add_step_time_seconds(1);
    if (mode_ == "lie_provenance") response.set_provenance("guessed");
    return grpc::Status::OK;
  }

  void AddAnswer(int i, const BadAnswer& answer, double factor,
                 wire::EstimateBatchResponse& response) const {
    const double seconds = answer.seconds * factor;
    response.add_status(answer.status);
    response.add_step_time_seconds(seconds);
    response.add_peak_memory_bytes(static_cast<std::int64_t>(answer.peak_memory_bytes));
    AddReason(i, answer.reason, response);
    if (mode_ == "lie_breakdown") response.add_breakdown_seconds(seconds / 2);
    if (mode_ != "lie_interval") return;
    response.add_step_time_low_seconds(2 * seconds);
    response.add_step_time_high_seconds(3 * seconds);
  }

  const std::string mode_;
  const std::string folder_;
  const double start_;  // only of this process
  std::atomic<int> batches_ = 0;
  std::atomic<int> callers_ = 0;
  std::atomic<bool> has_refused_ = false;
  std::atomic<bool> is_deaf_ = false;  // it does not answer until its caller gives up
  std::mutex mutex_;                   // guards the rest
  std::map<std::int64_t, BadContext> contexts_;
  std::int64_t last_ = 1;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBadService(const std::string& mode, const std::string& folder) {
  return std::make_unique<BadService>(mode, folder);
}

void Hang(const std::string& folder) {
  std::ofstream(folder + "/begun").flush();
  for (;;) pause();
}

}  // namespace meshwright
