#include "server/plugins/host/library_service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/costmodel/v1/costmodel.grpc.pb.h"
#include "search_space/base/clean_text.h"
#include "server/plugins/host/library_question.h"
#include "server/plugins/protocol/candidate_columns.h"
#include "server/plugins/protocol/protocol.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;

// gRPC drops messages with a text that is not UTF-8.
constexpr TextForm kWireText = {.longest_bytes = 64 << 10, .keeps_lines = true};
std::string TextOf(const mw_string& text) { return CleanText(FromLibrary(text), kWireText); }

// Text that the library made; released with this object.
class LibraryText {
 public:
  explicit LibraryText(const mw_costmodel_api& api) : api_(api) { text_.size = sizeof(mw_text); }
  ~LibraryText() {
    if (text_.text.data != nullptr) api_.release_text(&text_);
  }
  LibraryText(const LibraryText&) = delete;
  LibraryText& operator=(const LibraryText&) = delete;

  mw_text* get() { return &text_; }
  [[nodiscard]] std::string text() const { return FromLibrary(text_.text); }

 private:
  const mw_costmodel_api& api_;
  mw_text text_ = {};
};

// A context of the library, whose calls run one after another.
class LibraryContext {
 public:
  LibraryContext(const mw_costmodel_api& api, mw_context* context) : api_(api), context_(context) {}
  ~LibraryContext() { api_.close_context(context_); }
  LibraryContext(const LibraryContext&) = delete;
  LibraryContext& operator=(const LibraryContext&) = delete;

  template <typename Call>
  auto Use(const Call& call) {
    const std::lock_guard lock(mutex_);
    return call(context_);
  }

 private:
  const mw_costmodel_api& api_;
  mw_context* context_;
  std::mutex mutex_;
};

grpc::Status StatusOf(mw_code code, const std::string& text) {
  const std::string message = CleanText(text, {});
  switch (code) {
    case MW_OK:
      return grpc::Status::OK;
    case MW_INVALID:
      return {grpc::StatusCode::INVALID_ARGUMENT, message};
    case MW_UNSUPPORTED:
      return {grpc::StatusCode::UNIMPLEMENTED, message};
    case MW_FAILED:
      break;
  }
  return {grpc::StatusCode::INTERNAL, message};
}

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

void AddStrings(const mw_string* strings, std::size_t count,
                google::protobuf::RepeatedPtrField<std::string>& out) {
  for (std::size_t i = 0; i < count; ++i) *out.Add() = TextOf(strings[i]);
}

grpc::Status NotThere() { return {grpc::StatusCode::UNIMPLEMENTED, "the library has none"}; }

class LibraryService final : public wire::CostModelService::Service {
 public:
  explicit LibraryService(const mw_costmodel_api& api) : api_(api) {}

  grpc::Status GetInfo(grpc::ServerContext* /*context*/, const wire::GetInfoRequest* /*request*/,
                       wire::GetInfoResponse* response) override {
    const mw_info& info = *api_.info;
    response->set_protocol_major(kProtocolMajor);
    response->set_protocol_minor(kProtocolMinor);
    response->set_name(TextOf(info.name));
    response->set_vendor(TextOf(info.vendor));
    response->set_version(TextOf(info.version));
    response->set_description(TextOf(info.description));
    AddStrings(info.chips, info.chip_count, *response->mutable_chips());
    AddStrings(info.precisions, info.precision_count, *response->mutable_precisions());
    AddStrings(info.operators, info.operator_count, *response->mutable_operators());
    response->set_is_deterministic(info.is_deterministic);
    response->set_max_batch_size(info.max_batch_size);
    response->set_max_concurrent_batches(info.max_concurrent_batches);
    response->set_candidates_per_second(info.candidates_per_second);
    response->set_has_explain(api_.explain != nullptr);
    response->set_has_lower_bound(api_.lower_bound != nullptr);
    response->set_has_calibration(api_.fit_calibration != nullptr);
    return grpc::Status::OK;
  }

  grpc::Status OpenContext(grpc::ServerContext* /*context*/,
                           const wire::OpenContextRequest* request,
                           wire::OpenContextResponse* response) override {
    const LibraryQuestion question(*request);
    mw_context* opened = nullptr;
    LibraryText message(api_);
    const mw_code code = api_.open_context(question.get(), &opened, message.get());
    if (code != MW_OK) return StatusOf(code, message.text());
    const std::lock_guard lock(mutex_);
    response->set_context(++last_context_);
    contexts_[last_context_] = std::make_shared<LibraryContext>(api_, opened);
    return grpc::Status::OK;
  }

  grpc::Status CloseContext(grpc::ServerContext* /*context*/,
                            const wire::CloseContextRequest* request,
                            wire::CloseContextResponse* /*response*/) override {
    std::shared_ptr<LibraryContext> closed;  // ends after the lock, with its last call
    const std::lock_guard lock(mutex_);
    const auto found = contexts_.find(request->context());
    if (found == contexts_.end()) return NoContext(request->context());
    closed = std::move(found->second);
    contexts_.erase(found);
    return grpc::Status::OK;
  }

  grpc::Status EstimateBatch(grpc::ServerContext* /*context*/,
                             const wire::EstimateBatchRequest* request,
                             wire::EstimateBatchResponse* response) override {
    const auto context = Find(request->context());
    if (context == nullptr) return NoContext(request->context());
    const absl::Status checked = CheckColumns(request->candidates());
    if (!checked.ok()) return ToGrpc(checked);
    const auto count = static_cast<std::size_t>(request->candidates().count());
    const std::int32_t limit = api_.info->max_batch_size;
    if (limit > 0 && count > static_cast<std::size_t>(limit)) {
      return {grpc::StatusCode::INVALID_ARGUMENT,
              fmt::format("candidates.count = {}; must be <= {}", count, limit)};
    }
    return Estimate(*context, *request, *response);
  }

  grpc::Status Explain(grpc::ServerContext* /*context*/, const wire::ExplainRequest* request,
                       wire::ExplainResponse* response) override {
    if (api_.explain == nullptr) return NotThere();
    const auto context = Find(request->context());
    if (context == nullptr) return NoContext(request->context());
    const absl::Status checked = CheckColumns(request->candidate());
    if (!checked.ok()) return ToGrpc(checked);
    if (request->candidate().count() != 1) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "candidate.count; must be 1"};
    }
    const mw_candidates candidate = LibraryCandidates(request->candidate());
    LibraryText lines(api_);
    const mw_code code =
        context->Use([&](mw_context* c) { return api_.explain(c, &candidate, lines.get()); });
    if (code != MW_OK) return StatusOf(code, lines.text());
    const std::string text = CleanText(lines.text(), kWireText);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      response->add_lines(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return grpc::Status::OK;
  }

  grpc::Status LowerBound(grpc::ServerContext* /*context*/, const wire::LowerBoundRequest* request,
                          wire::LowerBoundResponse* response) override {
    if (api_.lower_bound == nullptr) return NotThere();
    const auto context = Find(request->context());
    if (context == nullptr) return NoContext(request->context());
    const absl::Status checked = CheckColumns(request->candidates());
    if (!checked.ok()) return ToGrpc(checked);
    const mw_candidates candidates = LibraryCandidates(request->candidates());
    auto& seconds = *response->mutable_step_time_seconds();
    seconds.Resize(request->candidates().count(), 0);
    return StatusOf(context->Use([&](mw_context* c) {
      return api_.lower_bound(c, &candidates, seconds.mutable_data());
    }),
                    "lower_bound failed");
  }

  grpc::Status ListCalibrationTests(grpc::ServerContext* /*context*/,
                                    const wire::ListCalibrationTestsRequest* request,
                                    wire::ListCalibrationTestsResponse* response) override {
    if (api_.list_calibration_tests == nullptr) return NotThere();
    const mw_calibration_test* tests = nullptr;
    std::size_t count = 0;
    const mw_code code =
        api_.list_calibration_tests(LibraryString(request->chip()), &tests, &count);
    if (code != MW_OK) return StatusOf(code, "list_calibration_tests failed");
    for (std::size_t i = 0; i < count; ++i) {
      wire::CalibrationTest& test = *response->add_tests();
      test.set_name(TextOf(tests[i].name));
      test.set_what(TextOf(tests[i].what));
      test.set_unit(TextOf(tests[i].unit));
    }
    return grpc::Status::OK;
  }

  grpc::Status FitCalibration(grpc::ServerContext* /*context*/,
                              const wire::FitCalibrationRequest* request,
                              wire::FitCalibrationResponse* response) override {
    if (api_.fit_calibration == nullptr) return NotThere();
    std::vector<mw_measurement> measurements;
    for (const wire::CalibrationMeasurement& measured : request->measurements()) {
      measurements.push_back({.name = LibraryString(measured.name()), .value = measured.value()});
    }
    LibraryText calibration(api_);
    LibraryText message(api_);
    const mw_code code =
        api_.fit_calibration(LibraryString(request->chip()), measurements.data(),
                             measurements.size(), calibration.get(), message.get());
    if (code != MW_OK) return StatusOf(code, message.text());
    response->set_calibration(calibration.text());
    response->set_version(TextOf(api_.info->version));
    return grpc::Status::OK;
  }

 private:
  std::shared_ptr<LibraryContext> Find(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = contexts_.find(id);
    return found == contexts_.end() ? nullptr : found->second;
  }

  static grpc::Status NoContext(std::int64_t id) {
    return {grpc::StatusCode::NOT_FOUND, fmt::format("context {} is not open", id)};
  }

  grpc::Status Estimate(LibraryContext& context, const wire::EstimateBatchRequest& request,
                        wire::EstimateBatchResponse& response) {
    const int count = request.candidates().count();
    auto& status = *response.mutable_status();
    status.Resize(count, wire::CANDIDATE_STATUS_ERROR);
    response.mutable_step_time_seconds()->Resize(count, 0);
    response.mutable_step_time_low_seconds()->Resize(count, 0);
    response.mutable_step_time_high_seconds()->Resize(count, 0);
    response.mutable_peak_memory_bytes()->Resize(count, 0);
    if (request.with_breakdown()) {
      AddStrings(api_.breakdown_names, api_.breakdown_name_count,
                 *response.mutable_breakdown_names());
      response.mutable_breakdown_seconds()->Resize(count * response.breakdown_names_size(), 0);
    }
    std::vector<mw_string> reasons(static_cast<std::size_t>(count));
    mw_estimates out = {
        .size = sizeof(mw_estimates),
        .extension = nullptr,
        .status = status.mutable_data(),
        .step_time_seconds = response.mutable_step_time_seconds()->mutable_data(),
        .step_time_low_seconds = response.mutable_step_time_low_seconds()->mutable_data(),
        .step_time_high_seconds = response.mutable_step_time_high_seconds()->mutable_data(),
        .peak_memory_bytes = response.mutable_peak_memory_bytes()->mutable_data(),
        .reason = reasons.data(),
        .breakdown_seconds = request.with_breakdown()
                                 ? response.mutable_breakdown_seconds()->mutable_data()
                                 : nullptr};
    const mw_candidates candidates = LibraryCandidates(request.candidates());
    return context.Use([&](mw_context* c) {
      LibraryText message(api_);
      const mw_code code = api_.estimate_batch(c, &candidates, &out, message.get());
      if (code != MW_OK) return StatusOf(code, message.text());
      for (int i = 0; i < count; ++i) {  // under the lock: texts may belong to the context
        const mw_string& reason = reasons[static_cast<std::size_t>(i)];
        if (reason.data == nullptr) continue;
        wire::CandidateReason& added = *response.add_reasons();
        added.set_index(i);
        added.set_text(TextOf(reason));
      }
      return grpc::Status::OK;
    });
  }

  const mw_costmodel_api& api_;
  std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<LibraryContext>> contexts_;
  std::int64_t last_context_ = 0;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeLibraryService(const mw_costmodel_api& api) {
  return std::make_unique<LibraryService>(api);
}

}  // namespace meshwright
