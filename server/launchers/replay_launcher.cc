#include "server/launchers/replay_launcher.h"

#include <algorithm>

#include "search_space/base/median.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {
namespace {

TrialOutcome Merged(const std::vector<MeasuredPlan>& rows) {
  std::vector<double> times;
  std::vector<std::int64_t> peaks;
  std::optional<Outcome> failure;
  for (const MeasuredPlan& row : rows) {
    if (row.outcome != Outcome::kOk) {
      // kOom is the first of the failing outcomes.
      failure = std::min(failure.value_or(row.outcome), row.outcome);
      continue;
    }
    times.push_back(row.step_time->count());
    if (row.peak_memory.has_value()) peaks.push_back(row.peak_memory->count);
  }
  if (times.size() * 2 < rows.size()) return TrialOutcomeOf(*failure, Seconds(0), std::nullopt);
  Ran ran = {.step_time = Seconds(Median(times))};
  if (!peaks.empty()) ran.peak_memory = Bytes{Median(peaks)};
  return ran;
}

}  // namespace

ReplayLauncher::ReplayLauncher(const ResolvedStudy& study) {
  std::map<ParallelPlan, std::vector<MeasuredPlan>> same;
  for (std::size_t i = 0; i < study.replay.size(); ++i) {
    same[WithStatedSplit(study.replay[i], study.problem)].push_back(
        study.request.trials->replay[i]);
  }
  for (const auto& [plan, measured] : same) outcomes_[plan] = Merged(measured);
}

absl::Status ReplayLauncher::Submit(const TrialJob& job) {
  const auto found = outcomes_.find(job.plan);
  if (found == outcomes_.end()) {
    return absl::NotFoundError("no row of the replay has plan " + MakePlanKey(job.plan).text);
  }
  const Ran* ran = std::get_if<Ran>(&found->second);
  ended_.push_back({.id = job.id,
                    .outcome = found->second,
                    .time = TrialTime(ran == nullptr ? Seconds(0) : ran->step_time)});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<FinishedTrial>> ReplayLauncher::Wait(Seconds /*limit*/) {
  if (ended_.empty()) return std::nullopt;
  FinishedTrial first = ended_.front();
  ended_.pop_front();
  return first;
}

void ReplayLauncher::Cancel(int /*id*/) {}  // a job has ended when it is submitted

std::vector<ParallelPlan> ReplayLauncher::Plans() const {
  std::vector<ParallelPlan> plans;
  for (const auto& [plan, outcome] : outcomes_) plans.push_back(plan);
  return plans;
}

}  // namespace meshwright
