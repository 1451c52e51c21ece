#include "server/tuner/answers/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "estimator/pipeline/operation.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

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

// Perfetto counts whole nanoseconds and drops spans that partly overlap, which happened when the
// start and the length of a span were rounded: 19 of 136 in one trace.
TEST(TimelineTest, SpansOfADeviceDoNotOverlap) {
  for (const auto schedule : {Schedule::k1f1b, Schedule::kZbV, Schedule::kDualpipe}) {
    const Timeline timeline = TimelineOfPlan(Pipeline(schedule), Known(), {}).value();
    const auto trace = nlohmann::json::parse(TraceEvents(timeline));
    struct Span {
      std::int64_t start = 0;
      std::int64_t end = 0;
      auto operator<=>(const Span&) const = default;
    };
    std::map<int, std::vector<Span>> by_device;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const std::int64_t start = std::llround(event["ts"].get<double>() * 1000);
      const std::int64_t length = std::llround(event["dur"].get<double>() * 1000);
      EXPECT_GE(length, 0);
      by_device[event["tid"]].push_back({.start = start, .end = start + length});
    }
    for (auto& [device, spans] : by_device) {
      std::ranges::sort(spans);
      for (std::size_t i = 1; i < spans.size(); ++i) {
        EXPECT_LE(spans[i - 1].end, spans[i].start) << device << " " << i;
      }
    }
  }
}

TEST(TimelineTest, NotMoreThanAFileHolds) {
  EvaluateRequest request = Pipeline(std::nullopt);
  request.question.workload.global_batch_size = 1'000'000;
  EXPECT_EQ(TimelineOfPlan(request, Known(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(EvaluatePlan(request, Known(), {}).ok());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
