#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "meshwright/v1/history.grpc.pb.h"
#include "recorder/transfer.h"
#include "search_space/base/status.h"
#include "server/changes/retraction.h"
#include "server/convert/convert.h"
#include "server/convert/history_wire.h"
#include "server/convert/status_wire.h"
#include "server/engine/engine.h"
#include "server/engine/engine_options.h"
#include "server/engine/history_queries.h"
#include "server/engine/spool.h"
#include "server/engine/wall_clock.h"
#include "server/rpc/calls/admission.h"
#include "server/rpc/calls/answer.h"
#include "server/rpc/calls/call_end.h"
#include "server/rpc/calls/pooled_reactor.h"
#include "server/rpc/services/services.h"

namespace meshwright {
namespace {

constexpr std::size_t kPartBytes = std::size_t{64} * 1024;

// The limits of one import: its lines must fit into a temporary file on a small machine.
constexpr SpoolLimits kImportLimits = {.bytes = 64'000'000, .line_bytes = 1'000'000};

// Writes the export to a spool on the pool's thread, then sends it as fast as the caller reads.
class ExportReactor final : public grpc::ServerWriteReactor<v1::ExportHistoryResponse> {
 public:
  static ExportReactor* Start(grpc::CallbackServerContext& call, const ServiceContext& context,
                              const v1::ExportHistoryRequest& request) {
    auto* reactor = new ExportReactor();
    const ArrivedCall arrived = Arrive({context.reception, call, "ExportHistory", request});
    const absl::Status admitted = Admit(context.reception.callers, arrived);
    if (!admitted.ok()) {
      EndCall(context.reception, arrived, admitted);
      reactor->Finish(ToGrpc(admitted));
      return reactor;
    }
    const auto run = [reactor, context, arrived, &request] {
      const absl::Status status = RunCall(context.reception, arrived,
                                          [&] { return reactor->Fill(context.engine, request); });
      if (status.ok()) {
        reactor->SendNext();
      } else {
        reactor->Finish(ToGrpc(status));
      }
    };
    const absl::Status submitted = context.heavy_pool.Submit({.run = run, .caller = call.peer()});
    if (!submitted.ok()) {
      EndCall(context.reception, arrived, submitted);
      reactor->Finish(ToGrpc(submitted));
    }
    return reactor;
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      SendNext();
    } else {
      Finish(ToGrpc(absl::CancelledError("the caller has disconnected")));
    }
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Fill(const Engine& engine, const v1::ExportHistoryRequest& request) {
    ASSIGN_OR_RETURN(Spool spool, Spool::Open());
    RETURN_IF_ERROR(ExportHistory(engine.queries(), request,
                                  [&](const std::string& part) { return spool.Append(part); }));
    RETURN_IF_ERROR(spool.Rewind());
    spool_.emplace(std::move(spool));
    return absl::OkStatus();
  }

  void SendNext() {
    const absl::StatusOr<std::string> part = spool_->Read(kPartBytes);
    if (!part.ok() || part->empty()) {
      Finish(ToGrpc(part.status()));
      return;
    }
    response_.set_lines(*part);
    StartWrite(&response_);
  }

  std::optional<Spool> spool_;
  v1::ExportHistoryResponse response_;
};

// Receives the lines into a spool, then imports them on the pool's thread.
class ImportReactor final : public grpc::ServerReadReactor<v1::ImportHistoryRequest> {
 public:
  ImportReactor(grpc::CallbackServerContext& call, const ServiceContext& context,
                v1::ImportHistoryResponse& response)
      : call_(call),
        context_(context),
        response_(response),
        arrived_(Arrive({context.reception, call, "ImportHistory", request_})),
        spool_(Spool::Open(kImportLimits)) {
    const absl::Status admitted = Admit(context.reception.callers, arrived_);
    if (admitted.ok()) {
      StartRead(&request_);
    } else {
      Refuse(admitted);
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Submit();
      return;
    }
    if (const absl::Status taken = Take(); !taken.ok()) {
      Refuse(taken);
      return;
    }
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Take() {
    RETURN_IF_ERROR(CheckRequest(request_));
    if (!options_.has_value()) {
      ASSIGN_OR_RETURN(const ImportOptions options, ReadImportOptions(request_));
      options_ = options;
    }
    RETURN_IF_ERROR(spool_.status());
    return spool_->Append(request_.lines());
  }

  void Submit() {
    if (call_.IsCancelled()) {
      Refuse(absl::CancelledError("the caller has disconnected"));
      return;
    }
    const auto run = [this] {
      Finish(ToGrpc(RunCall(context_.reception, arrived_, [this] { return Import(); })));
    };
    const absl::Status submitted = context_.heavy_pool.Submit({.run = run, .caller = call_.peer()});
    if (!submitted.ok()) Refuse(submitted);
  }

  // Ends a call whose import was not run.
  void Refuse(const absl::Status& status) {
    EndCall(context_.reception, arrived_, status);
    Finish(ToGrpc(status));
  }

  absl::Status Import() {
    RETURN_IF_ERROR(spool_.status());
    ASSIGN_OR_RETURN(response_, ImportHistory(context_.engine.store(), spool_->Lines(),
                                              options_.value_or(ImportOptions())));
    return absl::OkStatus();
  }

  grpc::CallbackServerContext& call_;
  const ServiceContext& context_;
  v1::ImportHistoryResponse& response_;
  v1::ImportHistoryRequest request_;
  const ArrivedCall arrived_;
  std::optional<ImportOptions> options_;
  absl::StatusOr<Spool> spool_;
};

class HistoryService final : public v1::HistoryService::CallbackService {
 public:
  explicit HistoryService(const ServiceContext& context)
      : context_(context), codec_(ProtobufCodec(context.knowledge)) {}

  grpc::ServerUnaryReactor* ListMeasurements(grpc::CallbackServerContext* context,
                                             const v1::ListMeasurementsRequest* request,
                                             v1::ListMeasurementsResponse* response) override {
    return AnswerFromStore(*context, *request, "ListMeasurements", *response,
                           [request](const HistoryQueries& history) {
                             return meshwright::ListMeasurements(history, *request);
                           });
  }

  grpc::ServerUnaryReactor* GetMeasurement(grpc::CallbackServerContext* context,
                                           const v1::GetMeasurementRequest* request,
                                           v1::GetMeasurementResponse* response) override {
    return AnswerFromStore(
        *context, *request, "GetMeasurement", *response, [&](const HistoryQueries& history) {
          return meshwright::GetMeasurement(history, request->measurement_id(), codec_);
        });
  }

  grpc::ServerUnaryReactor* RetractMeasurement(grpc::CallbackServerContext* context,
                                               const v1::RetractMeasurementRequest* request,
                                               v1::RetractMeasurementResponse* response) override {
    return Answer({context_.reception, *context, "RetractMeasurement", *request, response},
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(*response, meshwright::RetractMeasurement(
                                                    context_.engine.store(), *request, NowMs()));
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* ListCalibrations(grpc::CallbackServerContext* context,
                                             const v1::ListCalibrationsRequest* request,
                                             v1::ListCalibrationsResponse* response) override {
    return AnswerFromStore(*context, *request, "ListCalibrations", *response,
                           [request](const HistoryQueries& history) {
                             return meshwright::ListCalibrations(history, *request);
                           });
  }

  grpc::ServerUnaryReactor* GetCalibration(grpc::CallbackServerContext* context,
                                           const v1::GetCalibrationRequest* request,
                                           v1::GetCalibrationResponse* response) override {
    return AnswerFromStore(*context, *request, "GetCalibration", *response,
                           [request](const HistoryQueries& history) {
                             return meshwright::GetCalibration(history, request->calibration_id());
                           });
  }

  grpc::ServerWriteReactor<v1::ExportHistoryResponse>* ExportHistory(
      grpc::CallbackServerContext* context, const v1::ExportHistoryRequest* request) override {
    return ExportReactor::Start(*context, context_, *request);
  }

  grpc::ServerReadReactor<v1::ImportHistoryRequest>* ImportHistory(
      grpc::CallbackServerContext* context, v1::ImportHistoryResponse* response) override {
    return new ImportReactor(*context, context_, *response);
  }

  grpc::ServerUnaryReactor* ListAuditEvents(grpc::CallbackServerContext* context,
                                            const v1::ListAuditEventsRequest* request,
                                            v1::ListAuditEventsResponse* response) override {
    return AnswerFromStore(*context, *request, "ListAuditEvents", *response,
                           [request](const HistoryQueries& history) {
                             return meshwright::ListAuditEvents(history, *request);
                           });
  }

  grpc::ServerUnaryReactor* BackupStore(grpc::CallbackServerContext* context,
                                        const v1::BackupStoreRequest* request,
                                        v1::BackupStoreResponse* response) override {
    return PooledReactor::Start(
        context_.heavy_pool, {context_.reception, *context, "BackupStore", *request, response},
        [this, response](const std::stop_token& /*cancel*/) -> absl::Status {
          ASSIGN_OR_RETURN(*response, meshwright::BackupStore(context_.engine.queries(), NowMs()));
          return absl::OkStatus();
        });
  }

 private:
  template <typename Response, typename Ask>
  grpc::ServerUnaryReactor* AnswerFromStore(grpc::CallbackServerContext& context,
                                            const google::protobuf::Message& request,
                                            const char* method, Response& response,
                                            const Ask& ask) {
    return Answer({context_.reception, context, method, request, &response}, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(response, ask(context_.engine.queries()));
      return absl::OkStatus();
    });
  }

  const ServiceContext context_;
  const StudyCodec codec_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeHistoryService(const ServiceContext& context) {
  return std::make_unique<HistoryService>(context);
}

}  // namespace meshwright
