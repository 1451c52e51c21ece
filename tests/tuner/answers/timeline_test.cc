#include "server/tuner/answers/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "estimator/model/analytic_model.h"
#include "estimator/pipeline/operation.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace {

EvaluateRequest Pipeline(std::optional<Schedule> schedule) {
  return {.question = TinyQuestion(),
          .plan = {.pipeline_parallel = schedule ? 2 : 4,
                   .data_parallel = schedule ? 2 : 1,
                   .schedule = schedule}};
}

// The timeline of a plan is its estimate over time.
TEST(TimelineTest, EndsWithTheStep) {
  for (const auto schedule : {Schedule::k1f1b, Schedule::kZbV, Schedule::kDualpipe}) {
    const EvaluateRequest request = Pipeline(schedule);
    const auto timeline = TimelineOfPlan(request, Known(), {});
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    const Estimate estimate = EvaluatePlan(request, Known(), {}).value();
    EXPECT_EQ(timeline->step, estimate.step_time);
    EXPECT_NEAR(
        (timeline->pipeline + timeline->communication + timeline->optimizer + timeline->fixed) /
            timeline->step,
        1, 1e-12);
    Seconds last(0);
    for (const ScheduledOperation& op : timeline->operations) last = std::max(last, op.end);
    EXPECT_NEAR(last / timeline->pipeline, 1, 1e-12);
  }
}

// 16 micro-batches on 4 stages, forward and backward: 128 spans, in microseconds, and what follows.
TEST(TimelineTest, TraceEvents) {
  const Timeline timeline = TimelineOfPlan(Pipeline(std::nullopt), Known(), {}).value();
  const auto trace = nlohmann::json::parse(TraceEvents(timeline));
  int spans = 0;
  double end = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    spans += event["cat"] == "forward" || event["cat"] == "backward" ? 1 : 0;
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
    EXPECT_LT(event["tid"].get<int>(), 4);
  }
  EXPECT_EQ(spans, 128);
  EXPECT_NEAR(end, timeline.step.count() * 1e6, 0.01);
}

TEST(TimelineTest, NotMoreThanAFileHolds) {
  EvaluateRequest request = Pipeline(std::nullopt);
  request.question.workload.global_batch_size = 1'000'000;
  EXPECT_EQ(TimelineOfPlan(request, Known(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(EvaluatePlan(request, Known(), {}).ok());
}

}  // namespace
}  // namespace meshwright
