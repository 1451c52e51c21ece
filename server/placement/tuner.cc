#include "server/placement/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <variant>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/workload.h"
#include "server/convert/convert.h"
#include "server/process/parallel_for.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/heterogeneous.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"

namespace meshwright {
namespace {

// Returns equal texts for questions with equal answers. The names of pools are part of the answer
// if there are several.
std::string KeyOf(const Problem& problem) {
  std::string key = JobFingerprint(problem) + SoftwareFingerprint(problem);
  if (problem.cluster.pools.size() < 2) return key;
  for (const NodePool& pool : problem.cluster.pools) {
    key += fmt::format("/{}:{}", pool.name.size(), pool.name);
  }
  return key;
}

TunedNodes FoundIn(const StudyAnswer& answer, const ResolvedStudy& study) {
  if (const auto* const infeasible = std::get_if<Infeasible>(&answer)) {
    if (!infeasible->nearest.has_value()) return {.reason = "no plan is allowed"};
    return {.reason = fmt::format("no plan fits: the nearest lacks {:.1f} GiB of {} a device",
                                  static_cast<double>(infeasible->missing.count) / (1 << 30),
                                  Word(infeasible->binding_kind))};
  }
  const auto& result = std::get<StudyResult>(answer);
  const RankedPlan& plan = result.plans.front();
  const Workload& workload = study.problem.workload;
  const double tokens = static_cast<double>(workload.global_batch_size) * workload.sequence_length;
  return {.plan = ToWire(plan),
          .tokens_per_second = tokens / plan.estimate.step_time.count(),
          .is_mix =
              result.heterogeneous.has_value() && result.heterogeneous->verdict == MixVerdict::kMix,
          .is_sure = plan.estimate.fit_probability >= study.request.choice.min_fit_probability};
}

std::string MistakesOf(const absl::Status& status) {
  std::string text;
  for (const FieldViolation& one : FieldViolations(status)) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : "; ", one.field, one.description);
  }
  return text.empty() ? std::string(status.message()) : text;
}

}  // namespace

PlacementTuner::PlacementTuner(const Knowledge& knowledge, PlacementControl control)
    : knowledge_(knowledge), control_(std::move(control)) {}

// An answer that the end cut short would depend on the machine, so it counts as none.
absl::StatusOr<TunedNodes> PlacementTuner::AnswerOne(ResolvedStudy& study) const {
  using Clock = std::chrono::system_clock;
  const bool has_end = control_.end != Clock::time_point::max();
  if (has_end) study.request.deadline = std::max(Seconds(0), Seconds(control_.end - Clock::now()));
  if (has_end && Clock::now() >= control_.end) return absl::DeadlineExceededError("");
  const auto answer =
      RunStudy(study, knowledge_, {.cancel = control_.cancel, .history = control_.history});
  if (control_.cancel.stop_requested()) {
    return absl::CancelledError("stopped before all jobs were tuned");
  }
  if (has_end && Clock::now() >= control_.end) return absl::DeadlineExceededError("");
  if (!answer.ok()) return answer.status();
  return FoundIn(*answer, study);
}

// The answer to a question depends on no other one, so the number of threads changes nothing.
void PlacementTuner::Run(std::vector<Work>& work) const {
  std::mutex shown;
  std::size_t done = 0;
  ParallelFor(
      work.size(),
      [&](std::size_t i) {
        work[i].answer = AnswerOne(work[i].study);
        if (!control_.progress) return;
        const std::lock_guard lock(shown);
        control_.progress(++done, work.size());
      },
      control_.most_threads);
}

// Says how far the questions came before the end.
absl::Status PlacementTuner::LateStatus(const std::vector<Work>& work) {
  const auto answered =
      std::ranges::count_if(work, [](const Work& one) { return one.answer.ok(); });
  return absl::DeadlineExceededError(
      fmt::format("the deadline came when {} of {} questions about jobs on nodes were answered",
                  answered, work.size()));
}

absl::StatusOr<std::vector<TunedNodes>> PlacementTuner::Answer(
    const std::vector<v1::TuneRequest>& questions) {
  std::vector<std::string> keys;
  std::map<std::string, std::size_t> asked;
  std::vector<Work> work;
  std::vector<TunedNodes> found(questions.size());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    auto study = FromWire(questions[i], knowledge_);
    keys.emplace_back();
    if (!study.ok()) {
      found[i].reason = MistakesOf(study.status());
      continue;
    }
    keys.back() = KeyOf(study->problem);
    if (answers_.contains(keys.back()) || asked.contains(keys.back())) continue;
    asked[keys.back()] = work.size();
    work.push_back({.study = *std::move(study)});
  }
  question_count_ += static_cast<std::int64_t>(work.size());
  Run(work);
  for (auto& [key, index] : asked) {
    if (absl::IsDeadlineExceeded(work[index].answer.status())) return LateStatus(work);
    if (!work[index].answer.ok()) return work[index].answer.status();
    answers_[key] = *std::move(work[index].answer);
  }
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!keys[i].empty()) found[i] = answers_.at(keys[i]);
  }
  return found;
}

}  // namespace meshwright
