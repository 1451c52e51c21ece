// A vendor's cost model as a program that serves meshwright.costmodel.v1 on the Unix socket that
// --socket names. Keep this file unchanged and adapt roofline.cc.

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "meshwright/costmodel/v1/costmodel.grpc.pb.h"
#include "roofline.h"

namespace roofline {
namespace {

constexpr int kProtocolMajor = 1;
constexpr int kProtocolMinor = 0;
constexpr int kMaxBatch = 8192;

grpc::Status Invalid(const std::string& message) {
  return {grpc::StatusCode::INVALID_ARGUMENT, message};
}

class Service final : public wire::CostModelService::Service {
 public:
  grpc::Status GetInfo(grpc::ServerContext*, const wire::GetInfoRequest* request,
                       wire::GetInfoResponse* response) override {
    if (request->protocol_major() != kProtocolMajor) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "this model speaks protocol 1"};
    }
    response->set_protocol_major(kProtocolMajor);
    response->set_protocol_minor(kProtocolMinor);
    response->set_name("roofline-cpp");
    response->set_vendor("Example");
    response->set_version("1.0.0");
    response->set_description("Template in C++: FLOPs over peak, bytes over bandwidth");
    response->add_chips("*");
    for (const char* precision : {"bf16", "fp16", "fp8", "fp32"}) {
      response->add_precisions(precision);
    }
    response->add_operators("dense");
    response->add_operators("moe");
    response->set_is_deterministic(true);
    response->set_max_batch_size(kMaxBatch);
    response->set_max_concurrent_batches(4);
    response->set_candidates_per_second(20'000);
    response->set_has_explain(true);
    response->set_has_lower_bound(true);
    response->set_has_calibration(true);
    return grpc::Status::OK;
  }

  grpc::Status OpenContext(grpc::ServerContext*, const wire::OpenContextRequest* request,
                           wire::OpenContextResponse* response) override {
    const std::string refused = Roofline::WhyRefused(*request);
    if (!refused.empty()) return Invalid(refused);
    const std::lock_guard<std::mutex> lock(mutex_);
    contexts_[++last_] = std::make_shared<const Roofline>(*request);
    response->set_context(last_);
    return grpc::Status::OK;
  }

  grpc::Status CloseContext(grpc::ServerContext*, const wire::CloseContextRequest* request,
                            wire::CloseContextResponse*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return contexts_.erase(request->context()) == 1 ? grpc::Status::OK : NoContext();
  }

  grpc::Status EstimateBatch(grpc::ServerContext* call, const wire::EstimateBatchRequest* request,
                             wire::EstimateBatchResponse* response) override {
    const auto model = Find(request->context());
    if (model == nullptr) return NoContext();
    const std::string malformed = WhyMalformed(request->candidates());
    if (!malformed.empty()) return Invalid(malformed);
    const int count = request->candidates().count();
    if (count > kMaxBatch) return Invalid("candidates.count; must be <= 8192");
    response->mutable_status()->Resize(count, wire::CANDIDATE_STATUS_OK);
    response->mutable_step_time_seconds()->Resize(count, 0);
    response->mutable_peak_memory_bytes()->Resize(count, 0);
    if (request->with_breakdown()) {
      for (const char* line : kLines) response->add_breakdown_names(line);
      response->mutable_breakdown_seconds()->Resize(count * kLineCount, 0);
    }
    response->set_provenance("assumed");
    const Columns columns(request->candidates(), model->layers());
    for (int i = 0; i < count; ++i) {
      if (i % 256 == 0 && call->IsCancelled()) return grpc::Status::CANCELLED;
      Write(model->Of(columns.At(i)), i, *response);
    }
    return grpc::Status::OK;
  }

  grpc::Status Explain(grpc::ServerContext*, const wire::ExplainRequest* request,
                       wire::ExplainResponse* response) override {
    const auto model = Find(request->context());
    if (model == nullptr) return NoContext();
    const std::string malformed = WhyMalformed(request->candidate());
    if (!malformed.empty()) return Invalid(malformed);
    if (request->candidate().count() != 1) return Invalid("candidate.count; must be 1");
    const Estimate e = model->Of(Columns(request->candidate(), model->layers()).At(0));
    if (e.status != wire::CANDIDATE_STATUS_OK) response->add_lines(e.reason);
    for (int i = 0; i < kLineCount; ++i) {
      char line[96];
      std::snprintf(line, sizeof(line), "%-18s %.6f s", kLines[i], e.lines[i]);
      response->add_lines(line);
    }
    return grpc::Status::OK;
  }

  grpc::Status LowerBound(grpc::ServerContext*, const wire::LowerBoundRequest* request,
                          wire::LowerBoundResponse* response) override {
    const auto model = Find(request->context());
    if (model == nullptr) return NoContext();
    const std::string malformed = WhyMalformed(request->candidates());
    if (!malformed.empty()) return Invalid(malformed);
    const Columns columns(request->candidates(), model->layers());
    for (int i = 0; i < request->candidates().count(); ++i) {
      response->add_step_time_seconds(model->LeastSeconds(columns.At(i)));
    }
    return grpc::Status::OK;
  }

  grpc::Status ListCalibrationTests(grpc::ServerContext*, const wire::ListCalibrationTestsRequest*,
                                    wire::ListCalibrationTestsResponse* response) override {
    for (const Test& test : kTests) {
      wire::CalibrationTest& out = *response->add_tests();
      out.set_name(test.name);
      out.set_what(test.what);
      out.set_unit(test.unit);
    }
    return grpc::Status::OK;
  }

  grpc::Status FitCalibration(grpc::ServerContext*, const wire::FitCalibrationRequest* request,
                              wire::FitCalibrationResponse* response) override {
    Rates rates;
    const std::string wrong = rates.Fit(*request);
    if (!wrong.empty()) return Invalid(wrong);
    response->set_calibration(rates.Text());
    response->set_version("rates-1");
    return grpc::Status::OK;
  }

 private:
  static grpc::Status NoContext() {
    return {grpc::StatusCode::NOT_FOUND, "the context is not open"};
  }

  static void Write(const Estimate& e, int i, wire::EstimateBatchResponse& response) {
    response.set_status(i, e.status);
    if (e.status != wire::CANDIDATE_STATUS_OK) {
      wire::CandidateReason& reason = *response.add_reasons();
      reason.set_index(i);
      reason.set_text(e.reason);
      return;
    }
    response.set_step_time_seconds(i, e.seconds);
    response.set_peak_memory_bytes(i, static_cast<std::int64_t>(e.peak_memory_bytes));
    if (response.breakdown_names_size() == 0) return;
    for (int line = 0; line < kLineCount; ++line) {
      response.set_breakdown_seconds(i * kLineCount + line, e.lines[line]);
    }
  }

  std::shared_ptr<const Roofline> Find(std::int64_t id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = contexts_.find(id);
    return found == contexts_.end() ? nullptr : found->second;
  }

  std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<const Roofline>> contexts_;
  std::int64_t last_ = 0;
};

int Serve(const std::string& socket) {
  Service service;
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::fprintf(stderr, "cannot listen on %s\n", socket.c_str());
    return 1;
  }
  server->Wait();
  return 0;
}

}  // namespace
}  // namespace roofline

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--socket") return roofline::Serve(argv[i + 1]);
  }
  std::fprintf(stderr, "usage: %s --socket FILE\n", argv[0]);
  return 2;
}
