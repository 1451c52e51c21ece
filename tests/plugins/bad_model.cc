// A cost model that misbehaves as --mode says: what our own tests contain. It answers sanely but
// for that.

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "meshwright/costmodel/v1/costmodel.grpc.pb.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;

// The plan that the modes "..._on_candidate" are about.
constexpr int kPoisonTensorParallel = 4;
constexpr int kPoisonMicroBatch = 2;

// Bounds that hold until it is calibrated.
constexpr char kLateBounds[] = "calibration_bounds_high";

bool IsPoison(const wire::Candidates& c, int i) {
  return c.tensor_parallel_size() > 0 && c.tensor_parallel(i) == kPoisonTensorParallel &&
         c.micro_batch_size_size() > 0 && c.micro_batch_size(i) == kPoisonMicroBatch;
}

void Leak() {
  constexpr std::size_t kBytes = 64 << 20;
  char* const block = new char[kBytes];
  std::memset(block, 1, kBytes);
  static std::vector<char*> kept;
  kept.push_back(block);
}

class BadService final : public wire::CostModelService::Service {
 public:
  explicit BadService(std::string mode) : mode_(std::move(mode)) {}

  grpc::Status GetInfo(grpc::ServerContext* /*context*/, const wire::GetInfoRequest* /*request*/,
                       wire::GetInfoResponse* response) override {
    response->set_protocol_major(mode_ == "wrong_version" ? 9 : 1);
    response->set_name("bad-" + mode_);
    response->set_vendor("Tests");
    if (mode_ == "long_info") {
      response->set_description("\x1B[2J" + std::string(100'000, 'x'));
      for (int i = 0; i < 10'000; ++i) response->add_operators("gemm");
    }
    response->set_version("0.0.1");
    response->add_chips(mode_ == "guess_chips" ? "acme-x*" : "*");
    if (mode_ == "guess_chips") response->add_chips("other");
    response->add_precisions("bf16");
    response->set_is_deterministic(true);
    if (mode_ == "guess_operators") response->add_operators("dense");
    response->set_has_lower_bound(mode_.starts_with("bounds") || mode_ == kLateBounds);
    response->set_has_explain(has_explain());
    response->set_has_calibration(mode_.starts_with("calibration"));
    return grpc::Status::OK;
  }

  grpc::Status OpenContext(grpc::ServerContext* /*context*/,
                           const wire::OpenContextRequest* request,
                           wire::OpenContextResponse* response) override {
    if (mode_ == "refuse") return {grpc::StatusCode::INVALID_ARGUMENT, "no such chip"};
    if (mode_ == "crash_on_context") std::abort();
    const wire::Workload& workload = request->workload();
    const bool is_known =
        workload.precision() == "bf16" && workload.attention_kernel() != "conformance-kernel";
    if (mode_ == "guess_operators" && !is_known) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "no such precision or kernel"};
    }
    for (int i = 0; mode_ == "warnings" && i < 20; ++i) {
      response->add_warnings("\x1B[2Jassumes much, " + std::to_string(i));
    }
    is_calibrated_ = !request->calibration().empty();
    response->set_context(1);
    if (request->cluster().pools().empty()) return grpc::Status::OK;  // and guesses
    const wire::Pool& pool = request->cluster().pools(0);
    const double peak = pool.chip().peaks(0).flops_per_second();
    const double tokens = static_cast<double>(request->workload().global_batch_size()) *
                          request->workload().sequence_length();
    work_ = 6 * static_cast<double>(request->model().active_parameter_count()) * tokens /
            (peak * pool.node_count() * pool.devices_per_node());
    memory_ = 16 * request->model().parameter_count();
    return grpc::Status::OK;
  }

  grpc::Status EstimateBatch(grpc::ServerContext* /*context*/,
                             const wire::EstimateBatchRequest* request,
                             wire::EstimateBatchResponse* response) override {
    const wire::Candidates& candidates = request->candidates();
    Misbehave(candidates.count());
    for (int i = 0; i < candidates.count(); ++i) {
      if (IsPoison(candidates, i)) MisbehaveOnPoison();
      if (mode_ == "chinese") {
        const bool is_poison = IsPoison(candidates, i);
        response->add_status(is_poison ? wire::CANDIDATE_STATUS_ERROR : wire::CANDIDATE_STATUS_OK);
        if (is_poison) AddLongReason(i, *response);
      }
      response->add_step_time_seconds(TimeOf(candidates, i));
      response->add_peak_memory_bytes(mode_ == "lie_memory" ? 1000 : memory_);
    }
    if (mode_ == "wrong_shape") response->add_step_time_seconds(1);
    return grpc::Status::OK;
  }

  grpc::Status Explain(grpc::ServerContext* /*context*/, const wire::ExplainRequest* /*request*/,
                       wire::ExplainResponse* response) override {
    if (!has_explain()) return {grpc::StatusCode::UNIMPLEMENTED, "none"};
    if (mode_ == "explain_crash") std::abort();
    if (mode_ == "explain_hang") Hang();
    for (int i = 0; i < 1'000; ++i) response->add_lines("\x1B[2Jline " + std::string(1'000, 'x'));
    return grpc::Status::OK;
  }

  grpc::Status LowerBound(grpc::ServerContext* /*context*/, const wire::LowerBoundRequest* request,
                          wire::LowerBoundResponse* response) override {
    if (mode_ == "bounds_crash") std::abort();
    if (mode_ == "bounds_refuse_first" && !has_refused_.exchange(true)) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "no bounds of this problem"};
    }
    for (int i = 0; i < request->candidates().count(); ++i) {
      const double time = TimeOf(request->candidates(), i);
      double bound = 0.99 * time;
      if (mode_ == "bounds_high" || (mode_ == kLateBounds && is_calibrated_)) bound = 10 * time;
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
    if (!mode_.starts_with("calibration")) return {grpc::StatusCode::UNIMPLEMENTED, "none"};
    wire::CalibrationTest& test = *response->add_tests();
    test.set_name("rate");
    test.set_unit("flops_per_second");
    return grpc::Status::OK;
  }

  grpc::Status FitCalibration(grpc::ServerContext* /*context*/,
                              const wire::FitCalibrationRequest* request,
                              wire::FitCalibrationResponse* response) override {
    if (mode_ == "calibration_crash") std::abort();
    const bool is_number = std::isfinite(request->measurements(0).value());
    if (mode_ != "calibration_guess" && !is_number) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "not a number"};
    }
    const std::size_t size = mode_ == "calibration_large" ? (1 << 20) + 1 : 8;
    response->set_calibration(std::string(mode_ == "calibration_empty" ? 0 : size, 'p'));
    return grpc::Status::OK;
  }

  grpc::Status CloseContext(grpc::ServerContext* /*context*/,
                            const wire::CloseContextRequest* /*request*/,
                            wire::CloseContextResponse* /*response*/) override {
    return grpc::Status::OK;
  }

 private:
  [[nodiscard]] bool has_explain() const { return mode_.starts_with("explain"); }

  // "\u5185\u5b58", memory, 200 times: 1,200 bytes.
  static void AddLongReason(int index, wire::EstimateBatchResponse& response) {
    wire::CandidateReason& reason = *response.add_reasons();
    reason.set_index(index);
    for (int i = 0; i < 200; ++i) reason.mutable_text()->append("\u5185\u5b58");
  }

  static void Hang() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }

  void Misbehave(int count) {
    const int batch = ++batches_;
    if (mode_ == "hang") Hang();
    if (mode_ == "crash") std::abort();
    if (mode_ == "leak") Leak();
    if (mode_ == "slow" && count >= 1'000)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (mode_ == "crash_third_batch" && batch == 3) raise(SIGSEGV);
    if (mode_ == "flood") {
      const std::string line(4096, 'x');
      for (int i = 0; i < 1000; ++i) std::puts(line.c_str());
    }
  }

  void MisbehaveOnPoison() const {
    if (mode_ == "crash_on_candidate") std::abort();
    if (mode_ == "hang_on_candidate") Hang();
  }

  double TimeOf(const wire::Candidates& c, int i) const {
    const double good =
        work_ / 0.4 * (1 + 0.01 * (c.tensor_parallel_size() > 0 ? c.tensor_parallel(i) : 1));
    const bool is_lie = IsPoison(c, i);
    if (mode_ == "lie_nan" && is_lie) return std::numeric_limits<double>::quiet_NaN();
    if (mode_ == "lie_negative" && is_lie) return -1;
    if (mode_ == "lie_fast" && is_lie) return good / 1000;
    if (mode_ == "wrong_units") return good / 3600;  // hours
    if (mode_ == "nondeterministic") return good * (1 + 1e-6 * batches_);
    return good;
  }

  const std::string mode_;
  double work_ = 0;
  std::int64_t memory_ = 0;
  std::atomic<int> batches_ = 0;
  std::atomic<bool> is_calibrated_ = false;  // the context that was opened last
  std::atomic<bool> has_refused_ = false;
};

// What answers here is no gRPC.
int ServeGarbage(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return 1;
  listen(listener, 8);
  for (;;) {
    const int client = accept(listener, nullptr, nullptr);
    const std::string garbage(1 << 16, '\x7f');
    if (write(client, garbage.data(), garbage.size()) < 0) std::perror("write");
    close(client);
  }
}

// A child that has left its parent's session, and closes nothing.
void StartOrphan() {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  for (;;) sleep(1000);
}

int Serve(const std::string& mode, const std::string& socket) {
  BadService service(mode);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  if (mode == "not_serving") server->GetHealthCheckService()->SetServingStatus(false);
  server->Wait();
  return 0;
}

int Main(const std::string& mode, const std::string& socket) {
  if (mode == "crash_at_start") {
    std::fputs("no licence found\n", stderr);
    return 3;
  }
  if (mode == "hang_at_start") std::this_thread::sleep_for(std::chrono::hours(1));
  if (mode == "garbage") return ServeGarbage(socket);
  if (mode == "orphans") StartOrphan();
  return Serve(mode, socket);
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  std::string mode = "good";
  std::string socket;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--mode") mode = argv[i + 1];
    if (std::string(argv[i]) == "--socket") socket = argv[i + 1];
  }
  return meshwright::Main(mode, socket);
}
