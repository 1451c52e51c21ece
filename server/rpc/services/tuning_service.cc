#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "meshwright/v1/service.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/auth/callers.h"
#include "server/changes/study_changes.h"
#include "server/convert/attempt_wire.h"
#include "server/convert/question_answers.h"
#include "server/convert/status_wire.h"
#include "server/convert/study_wire.h"
#include "server/convert/trial_wire.h"
#include "server/engine/engine.h"
#include "server/rpc/calls/admission.h"
#include "server/rpc/calls/answer.h"
#include "server/rpc/calls/call_end.h"
#include "server/rpc/calls/pooled_reactor.h"
#include "server/rpc/services/job_templates.h"
#include "server/rpc/services/services.h"
#include "server/rpc/services/watch.h"

namespace meshwright {
namespace {

class TuningService final : public v1::TuningService::CallbackService, public ClosableService {
 public:
  TuningService(const ServiceContext& context, const WatchOptions& watches)
      : context_(context), watchers_(watches) {}

  grpc::Service& service() override { return *this; }
  void Close() override { watchers_.Close(); }
  [[nodiscard]] int open_stream_count() const override { return watchers_.count(); }

  grpc::ServerUnaryReactor* CreateStudy(grpc::CallbackServerContext* context,
                                        const v1::CreateStudyRequest* request,
                                        v1::CreateStudyResponse* response) override {
    return AnswerCaller(
        {context_.reception, *context, "CreateStudy", *request, response},
        [&](const std::optional<KnownCaller>& caller) -> absl::Status {
          v1::CreateStudyRequest resolved = *request;
          RETURN_IF_ERROR(ResolveJob(context_.jobs, resolved));
          ASSIGN_OR_RETURN(*response,
                           meshwright::CreateStudy(resolved, caller.has_value() ? caller->name : "",
                                                   context_.knowledge, context_.engine));
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* GetStudy(grpc::CallbackServerContext* context,
                                     const v1::GetStudyRequest* request,
                                     v1::GetStudyResponse* response) override {
    return Answer(
        {context_.reception, *context, "GetStudy", *request, response}, [&]() -> absl::Status {
          auto study = meshwright::GetStudy(context_.engine.queries(), request->study_id());
          if (!study.ok()) return NameStudy(study.status(), request->study_id());
          *response = *std::move(study);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* ListStudies(grpc::CallbackServerContext* context,
                                        const v1::ListStudiesRequest* request,
                                        v1::ListStudiesResponse* response) override {
    return Answer(
        {context_.reception, *context, "ListStudies", *request, response}, [&]() -> absl::Status {
          ASSIGN_OR_RETURN(*response, meshwright::ListStudies(context_.engine.queries(), *request));
          return absl::OkStatus();
        });
  }

  grpc::ServerWriteReactor<v1::WatchStudyResponse>* WatchStudy(
      grpc::CallbackServerContext* context, const v1::WatchStudyRequest* request) override {
    const ArrivedCall arrived = Arrive({context_.reception, *context, "WatchStudy", *request});
    auto* watch =
        new WatchReactor(*context, context_.engine, watchers_,
                         [&reception = context_.reception, arrived](const absl::Status& status) {
                           EndCall(reception, arrived, status);
                         });
    absl::Status checked = Admit(context_.reception.callers, arrived);
    if (checked.ok()) checked = CheckRequest(*request);
    if (checked.ok()) {
      watch->Follow(request->study_id(), request->after_revision());
    } else {
      watch->Close(checked);
    }
    return watch;
  }

  grpc::ServerUnaryReactor* CancelStudy(grpc::CallbackServerContext* context,
                                        const v1::CancelStudyRequest* request,
                                        v1::CancelStudyResponse* response) override {
    return Answer({context_.reception, *context, "CancelStudy", *request, response},
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(*response, meshwright::CancelStudy(*request, context_.engine));
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* PauseStudy(grpc::CallbackServerContext* context,
                                       const v1::PauseStudyRequest* request,
                                       v1::PauseStudyResponse* response) override {
    return Answer({context_.reception, *context, "PauseStudy", *request, response},
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(*response, meshwright::PauseStudy(*request, context_.engine));
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* ResumeStudy(grpc::CallbackServerContext* context,
                                        const v1::ResumeStudyRequest* request,
                                        v1::ResumeStudyResponse* response) override {
    return Answer({context_.reception, *context, "ResumeStudy", *request, response},
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(*response, meshwright::ResumeStudy(*request, context_.engine));
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* DeleteStudy(grpc::CallbackServerContext* context,
                                        const v1::DeleteStudyRequest* request,
                                        v1::DeleteStudyResponse* response) override {
    return Answer({context_.reception, *context, "DeleteStudy", *request, response},
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(*response, meshwright::DeleteStudy(*request, context_.engine));
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* RetryTrials(grpc::CallbackServerContext* context,
                                        const v1::RetryTrialsRequest* request,
                                        v1::RetryTrialsResponse* response) override {
    return Answer({context_.reception, *context, "RetryTrials", *request, response},
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(*response, meshwright::RetryTrials(*request, context_.engine));
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* UpdateStudy(grpc::CallbackServerContext* context,
                                        const v1::UpdateStudyRequest* request,
                                        v1::UpdateStudyResponse* response) override {
    return Answer(
        {context_.reception, *context, "UpdateStudy", *request, response}, [&]() -> absl::Status {
          ASSIGN_OR_RETURN(*response, meshwright::UpdateStudy(*request, context_.engine.store()));
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* ListPlans(grpc::CallbackServerContext* context,
                                      const v1::ListPlansRequest* request,
                                      v1::ListPlansResponse* response) override {
    return Answer({context_.reception, *context, "ListPlans", *request, response},
                  [&]() -> absl::Status {
                    auto plans = meshwright::ListPlans(context_.engine.queries(), *request);
                    if (!plans.ok()) return NameStudy(plans.status(), request->study_id());
                    *response = *std::move(plans);
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* GetPlan(grpc::CallbackServerContext* context,
                                    const v1::GetPlanRequest* request,
                                    v1::GetPlanResponse* response) override {
    return Answer({context_.reception, *context, "GetPlan", *request, response},
                  [&]() -> absl::Status {
                    auto answer = meshwright::GetPlan(context_.engine.queries(), *request);
                    if (!answer.ok()) return NameStudy(answer.status(), request->study_id());
                    *response = *std::move(answer);
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* CompareStudyPlans(grpc::CallbackServerContext* context,
                                              const v1::CompareStudyPlansRequest* request,
                                              v1::ComparePlansResponse* response) override {
    return PooledReactor::Start(
        context_.pool, {context_.reception, *context, "CompareStudyPlans", *request, response},
        [this, request, response](const std::stop_token& cancel) -> absl::Status {
          auto answer = meshwright::CompareStudyPlans(context_.engine.queries(), *request,
                                                      QuestionContextOf(context_, cancel));
          if (!answer.ok()) return NameStudy(answer.status(), request->study_id());
          *response = *std::move(answer);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* ListTrials(grpc::CallbackServerContext* context,
                                       const v1::ListTrialsRequest* request,
                                       v1::ListTrialsResponse* response) override {
    return Answer({context_.reception, *context, "ListTrials", *request, response},
                  [&]() -> absl::Status {
                    auto trials = meshwright::ListTrials(context_.engine.queries(), *request);
                    if (!trials.ok()) return NameStudy(trials.status(), request->study_id());
                    *response = *std::move(trials);
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* ListAttempts(grpc::CallbackServerContext* context,
                                         const v1::ListAttemptsRequest* request,
                                         v1::ListAttemptsResponse* response) override {
    return Answer({context_.reception, *context, "ListAttempts", *request, response},
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(*response,
                                     meshwright::ListAttempts(context_.engine.queries(), *request));
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* GetTrial(grpc::CallbackServerContext* context,
                                     const v1::GetTrialRequest* request,
                                     v1::GetTrialResponse* response) override {
    return Answer({context_.reception, *context, "GetTrial", *request, response},
                  [&]() -> absl::Status {
                    auto answer = meshwright::GetTrial(context_.engine.queries(), *request);
                    if (!answer.ok()) return NameStudy(answer.status(), request->study_id());
                    *response = *std::move(answer);
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* ListParetoTrials(grpc::CallbackServerContext* context,
                                             const v1::ListParetoTrialsRequest* request,
                                             v1::ListParetoTrialsResponse* response) override {
    return Answer({context_.reception, *context, "ListParetoTrials", *request, response},
                  [&]() -> absl::Status {
                    auto answer = meshwright::ListParetoTrials(context_.engine.queries(), *request);
                    if (!answer.ok()) return NameStudy(answer.status(), request->study_id());
                    *response = *std::move(answer);
                    return absl::OkStatus();
                  });
  }

  grpc::ServerUnaryReactor* GetTrialLogs(grpc::CallbackServerContext* context,
                                         const v1::GetTrialLogsRequest* request,
                                         v1::GetTrialLogsResponse* response) override {
    return Answer({context_.reception, *context, "GetTrialLogs", *request, response},
                  [&]() -> absl::Status {
                    auto answer = meshwright::GetTrialLogs(context_.engine.queries(), *request);
                    if (!answer.ok()) return NameStudy(answer.status(), request->study_id());
                    *response = *std::move(answer);
                    return absl::OkStatus();
                  });
  }

 private:
  const ServiceContext context_;
  Watchers watchers_;
};

}  // namespace

std::unique_ptr<ClosableService> MakeTuningService(const ServiceContext& context,
                                                   const WatchOptions& watches) {
  return std::make_unique<TuningService>(context, watches);
}

}  // namespace meshwright
