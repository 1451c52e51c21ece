#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/questions.h"

namespace meshwright {

// Answers as the built-in model would, unless it is told otherwise.
class FakeModel final : public PlanModel {
 public:
  using Judge = std::function<PlanFigures(const ParallelPlan&, Seconds built_in)>;
  FakeModel(const Problem& problem, Judge judge, int failing_call)
      : PlanModel({.name = "fake",
                   .vendor = "Tests",
                   .version = "2",
                   .protocol = "1.0",
                   .checksum = "abc",
                   .calibration = "7+def"},
                  {"calibrated long ago"}),
        model_(ToEstimatorProblem(problem)),
        judge_(std::move(judge)),
        failing_call_(failing_call) {}

  absl::StatusOr<std::vector<PlanFigures>> Estimate(std::span<const ParallelPlan> plans,
                                                    const BatchOptions& /*options*/) override {
    if (++calls_ == failing_call_) return absl::UnavailableError("given up");
    std::vector<PlanFigures> figures;
    for (const ParallelPlan& plan : plans) {
      figures.push_back(judge_(plan, model_.Quick(plan).step_time));
    }
    return figures;
  }

 private:
  AnalyticModel model_;
  const Judge judge_;
  const int failing_call_;
  int calls_ = 0;
};

inline PlanFigures AsBuiltIn(const ParallelPlan& /*plan*/, Seconds built_in) {
  return {.verdict = PlanVerdict::kOk, .step_time = built_in};
}

// Opens the model `fake`, which fails at the call of that number; `broken` does not start.
inline StudyControl With(FakeModel::Judge judge, int failing_call = 0) {
  StudyControl control;
  control.open_model =
      [judge = std::move(judge), failing_call](
          std::string_view name, const Problem& problem,
          const std::stop_token& /*cancel*/) -> absl::StatusOr<std::unique_ptr<PlanModel>> {
    if (name == "broken") return absl::UnavailableError("does not start");
    return std::make_unique<FakeModel>(problem, judge, failing_call);
  };
  return control;
}

inline StudyRequest Asking(const std::string& name, bool allow_fallback = false) {
  return {.question = TinyQuestion(),
          .cost_model = CostModelRequest{.name = name, .allow_fallback = allow_fallback}};
}

}  // namespace meshwright
