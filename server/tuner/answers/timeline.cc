#include "server/tuner/answers/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/pipeline/operation.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/history_runs.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

constexpr double kMaxOperations = 2e6;  // a file of 300 MB

std::string_view Word(OperationKind kind) {
  switch (kind) {
    case OperationKind::kForward:
      return "forward";
    case OperationKind::kBackward:
      return "backward";
    case OperationKind::kWeightGradient:
      return "weight gradient";
  }
  std::abort();
}

// Perfetto counts in whole nanoseconds and drops a span that partly overlaps another. So both ends
// of a span are rounded; a span that ends where the next begins still does so after rounding.
std::int64_t Nanoseconds(Seconds time) { return std::llround(time.count() * 1e9); }

// Returns nanoseconds in the format's notation: "1.234" microseconds.
std::string Microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

struct Span {
  std::string name = {};
  std::string_view category = {};
  int device = 0;
  Seconds start = Seconds(0);
  Seconds end = Seconds(0);
};

// Appends a span; `arguments` are members of a JSON object.
void AppendSpan(const Span& span, std::string_view arguments, std::string& text) {
  const std::int64_t start = Nanoseconds(span.start);
  fmt::format_to(std::back_inserter(text),
                 ",\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":0,\"tid\":{},"
                 "\"ts\":{},\"dur\":{},\"args\":{{{}}}}}",
                 span.name, span.category, span.device, Microseconds(start),
                 Microseconds(Nanoseconds(span.end) - start), arguments);
}

}  // namespace

absl::StatusOr<Timeline> TimelineOfPlan(const ResolvedCase& asked, const Knowledge& knowledge,
                                        const std::vector<HistoryRow>& history,
                                        const SharedRows& stored) {
  const Problem& problem = *asked.problem;
  const ParallelPlan& plan = asked.plan.plan;
  const Calibration calibration =
      Calibrate(ResolveRuns(history, stored, problem, knowledge), problem);
  const double operations = 3.0 * MicroBatchCount(plan, problem.workload.global_batch_size) *
                            StageCount(plan) * plan.virtual_pipeline;
  if (operations > kMaxOperations) {
    return InvalidFields(
        {{.field = "plan.micro_batch_size",
          .description = fmt::format("{}; up to {:.0f} operations, a trace has at most {:.0f}",
                                     plan.micro_batch_size, operations, kMaxOperations)}});
  }
  AnalyticModel model(ToEstimatorProblem(problem), calibration);
  return model.TimelineOf(plan);
}

std::string TraceEvents(const Timeline& timeline) {
  int devices = 0;
  Seconds pipeline = timeline.pipeline;
  for (const ScheduledOperation& op : timeline.operations) {
    devices = std::max(devices, op.device + 1);
    pipeline = std::max(pipeline, op.end);  // equals the last end, except for rounding
  }
  std::string text =
      "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
      "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"pipeline\"}}";
  for (int device = 0; device < devices; ++device) {
    fmt::format_to(std::back_inserter(text),
                   ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":{0},"
                   "\"args\":{{\"name\":\"stage {0}\"}}}}",
                   device);
  }
  for (const ScheduledOperation& op : timeline.operations) {
    AppendSpan({.name = fmt::format("{} {}", Word(op.kind), op.micro_batch),
                .category = Word(op.kind),
                .device = op.device,
                .start = op.start,
                .end = op.end},
               fmt::format("\"micro_batch\":{},\"chunk\":{},\"direction\":{}", op.micro_batch,
                           op.chunk, op.direction),
               text);
  }
  struct Part {
    std::string_view name;
    Seconds duration;
  };
  for (int device = 0; device < devices; ++device) {
    Seconds at = pipeline;
    for (const Part& part :
         {Part{"exposed data parallelism", timeline.communication},
          Part{"optimizer", timeline.optimizer}, Part{"fixed", timeline.fixed}}) {
      if (part.duration > Seconds(0)) {
        AppendSpan({.name = std::string(part.name),
                    .category = part.name,
                    .device = device,
                    .start = at,
                    .end = at + part.duration},
                   "", text);
      }
      at += part.duration;
    }
  }
  return text + "\n]}\n";
}

absl::StatusOr<std::string> TraceOfPlan(const ResolvedCase& asked, const Knowledge& knowledge,
                                        const std::vector<HistoryRow>& history,
                                        const SharedRows& stored) {
  ASSIGN_OR_RETURN(const Timeline timeline, TimelineOfPlan(asked, knowledge, history, stored));
  if (timeline.operations.size() > kMaxAnsweredOperations) {
    return InvalidFields(
        {{.field = "plan.micro_batch_size",
          .description = fmt::format("{}; {} operations, an answer has at most {}",
                                     asked.plan.plan.micro_batch_size, timeline.operations.size(),
                                     kMaxAnsweredOperations)}});
  }
  return TraceEvents(timeline);
}

}  // namespace meshwright
