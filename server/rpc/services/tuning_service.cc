#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/v1/service.grpc.pb.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/convert/attempt_wire.h"
#include "server/convert/convert.h"
#include "server/convert/status_wire.h"
#include "server/convert/study_wire.h"
#include "server/convert/trial_wire.h"
#include "server/engine/engine.h"
#include "server/engine/study_id.h"
#include "server/rpc/calls/answer.h"
#include "server/rpc/services/services.h"
#include "server/rpc/services/watch.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace {

absl::Status NameStudy(const absl::Status& status, const std::string& id) {
  return absl::IsNotFound(status) ? WithResource(status, "study", id) : status;
}

class TuningService final : public v1::TuningService::CallbackService, public ClosableService {
 public:
  TuningService(const ServiceContext& context, std::chrono::milliseconds heartbeat)
      : context_(context), watchers_(heartbeat) {}

  grpc::Service& service() override { return *this; }
  void Close() override { watchers_.Close(); }

  grpc::ServerUnaryReactor* CreateStudy(grpc::CallbackServerContext* context,
                                        const v1::CreateStudyRequest* request,
                                        v1::CreateStudyResponse* response) override {
    return Answer(*context, "CreateStudy", *request,
                  [&] { return AnswerCreate(*request, *response); });
  }

  grpc::ServerUnaryReactor* GetStudy(grpc::CallbackServerContext* context,
                                     const v1::GetStudyRequest* request,
                                     v1::GetStudyResponse* response) override {
    return Answer(*context, "GetStudy", *request, [&]() -> absl::Status {
      auto study = meshwright::GetStudy(context_.engine.queries(), request->study_id());
      if (!study.ok()) return NameStudy(study.status(), request->study_id());
      *response = *std::move(study);
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* ListStudies(grpc::CallbackServerContext* context,
                                        const v1::ListStudiesRequest* request,
                                        v1::ListStudiesResponse* response) override {
    return Answer(*context, "ListStudies", *request, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(*response, meshwright::ListStudies(context_.engine.queries(), *request));
      return absl::OkStatus();
    });
  }

  grpc::ServerWriteReactor<v1::WatchStudyResponse>* WatchStudy(
      grpc::CallbackServerContext* context, const v1::WatchStudyRequest* request) override {
    auto* watch = new WatchReactor(*context, context_.engine, watchers_);
    const absl::Status texts = CheckTexts(*request);
    if (texts.ok()) {
      watch->Follow(request->study_id(), request->after_revision());
    } else {
      watch->Close(texts);
    }
    return watch;
  }

  grpc::ServerUnaryReactor* CancelStudy(grpc::CallbackServerContext* context,
                                        const v1::CancelStudyRequest* request,
                                        v1::CancelStudyResponse* response) override {
    return Answer(*context, "CancelStudy", *request, [&]() -> absl::Status {
      const auto study = context_.engine.CancelStudy(request->study_id());
      if (!study.ok()) return NameStudy(study.status(), request->study_id());
      *response->mutable_study() = ToWire(*study);
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* UpdateStudy(grpc::CallbackServerContext* context,
                                        const v1::UpdateStudyRequest* request,
                                        v1::UpdateStudyResponse* response) override {
    return Answer(*context, "UpdateStudy", *request, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(const StudyEdit edit, FromWire(*request));
      const auto study = WriteTo(context_.engine.store(),
                                 [&edit](Recorder& recorder) { return recorder.EditStudy(edit); });
      if (!study.ok()) return NameStudy(study.status(), request->study_id());
      *response->mutable_study() = ToWire(*study);
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* ListPlans(grpc::CallbackServerContext* context,
                                      const v1::ListPlansRequest* request,
                                      v1::ListPlansResponse* response) override {
    return Answer(*context, "ListPlans", *request, [&]() -> absl::Status {
      auto plans = meshwright::ListPlans(context_.engine.queries(), *request);
      if (!plans.ok()) return NameStudy(plans.status(), request->study_id());
      *response = *std::move(plans);
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* ListTrials(grpc::CallbackServerContext* context,
                                       const v1::ListTrialsRequest* request,
                                       v1::ListTrialsResponse* response) override {
    return Answer(*context, "ListTrials", *request, [&]() -> absl::Status {
      auto trials = meshwright::ListTrials(context_.engine.queries(), *request);
      if (!trials.ok()) return NameStudy(trials.status(), request->study_id());
      *response = *std::move(trials);
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* ListAttempts(grpc::CallbackServerContext* context,
                                         const v1::ListAttemptsRequest* request,
                                         v1::ListAttemptsResponse* response) override {
    return Answer(*context, "ListAttempts", *request, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(*response, meshwright::ListAttempts(context_.engine.queries(), *request));
      return absl::OkStatus();
    });
  }

 private:
  absl::Status AnswerCreate(const v1::CreateStudyRequest& request,
                            v1::CreateStudyResponse& response) {
    CreateStudyOptions options;
    std::vector<FieldViolation> violations;
    if (request.has_study_id()) {
      options.study_id = request.study_id();
      const std::string& launcher = request.question().trials().launcher();
      if (auto violation = CheckStudyId(request.study_id(), launcher)) {
        violations.push_back(*std::move(violation));
      }
    }
    if (request.has_request_id()) options.request_id = request.request_id();
    ASSIGN_OR_RETURN(const ResolvedStudy asked,
                     FromWire(request.question(), context_.knowledge, std::move(violations)));
    ASSIGN_OR_RETURN(const StudyRecord study, context_.engine.CreateStudy(asked, options));
    *response.mutable_study() = ToWire(study);
    return absl::OkStatus();
  }

  const ServiceContext context_;
  Watchers watchers_;
};

}  // namespace

std::unique_ptr<ClosableService> MakeTuningService(const ServiceContext& context,
                                                   std::chrono::milliseconds heartbeat) {
  return std::make_unique<TuningService>(context, heartbeat);
}

}  // namespace meshwright
