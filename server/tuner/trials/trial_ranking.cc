#include "server/tuner/trials/trial_ranking.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "estimator/learning/interval.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/trials/trial_model.h"
#include "server/tuner/trials/trial_repeats.h"

namespace meshwright {
namespace {

// Standard deviation between repeats of one layout (docs/cost_model/learning.md).
constexpr double kRepeatSigma = 0.03;

struct Entry {
  RankedPlan plan = {};
  bool is_measured = false;
};

// Adds warnings about the quality of the trials' times, based on how they were measured.
void NoteQuality(const std::vector<TriedPlan>& tried, StudyResult& result) {
  std::vector<std::size_t> suspect;
  std::set<std::string> environments;
  // The load of the preceding trial is expected.
  const auto counts = [](const std::string& reason) { return !reason.starts_with("load_before"); };
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (!std::holds_alternative<Ran>(tried[i].outcome)) continue;
    if (std::ranges::any_of(tried[i].suspect_reasons, counts)) suspect.push_back(i + 1);
    if (!tried[i].environment_digest.empty()) environments.insert(tried[i].environment_digest);
  }
  if (!suspect.empty()) {
    result.warnings.push_back(fmt::format("{} of {} trials have doubtful times: {}", suspect.size(),
                                          tried.size(), fmt::join(suspect, ", ")));
  }
  if (environments.size() > 1) {
    result.warnings.push_back(
        fmt::format("the trials ran in {} different environments", environments.size()));
  }
}

}  // namespace

RankedPlan RankMeasured(const Ran& run, const ParallelPlan& plan, const Problem& problem,
                        const Calibration& learnt) {
  const Estimate modelled = AnalyticModel(ToEstimatorProblem(problem)).Full(plan);
  Calibration own = learnt;
  own.time = {};
  own.time_ratio = run.step_time / modelled.step_time;
  if (run.peak_memory.has_value()) {
    own.memory = {};
    own.memory_ratio = *run.peak_memory / modelled.peak_memory;
  }
  AnalyticModel model(ToEstimatorProblem(problem), own);
  RankedPlan ranked = RankPlan(plan, problem, model);
  Estimate& estimate = ranked.estimate;
  estimate.step_time = run.step_time;  // bit for bit
  estimate.peak_memory = run.peak_memory.value_or(estimate.peak_memory);
  estimate.step_time_low = run.step_time * std::exp(-kCentral80 * kRepeatSigma);
  estimate.step_time_high = run.step_time * std::exp(kCentral80 * kRepeatSigma);
  estimate.fits = true;
  estimate.fit_probability = 1;
  estimate.provenance = Provenance::kMeasured;
  estimate.uncertainty_ratio_by_source = {{std::string(uncertainty_source::kMeasuredRuns), 1}};
  estimate.warnings.clear();  // they concern the expectation
  return ranked;
}

RankedPlan RankUntried(const TrialChooser& chooser, std::size_t candidate, const Problem& problem,
                       AnalyticModel& model) {
  const RankedPlan& before = chooser.candidates()[candidate];
  RankedPlan ranked = RankPlan(before.plan, problem, model);
  if (IsByVendor(before.estimate)) {
    return AtExpectation(std::move(ranked), before.estimate, chooser.Expect(candidate));
  }
  ranked.estimate.cost_model = before.estimate.cost_model;  // keeps that it is a fallback, and why
  return ranked;
}

std::vector<RankedPlan> RankAfterTrials(const TrialChooser& chooser, const LearntOfTrials& learnt,
                                        const Problem& problem, int plan_count) {
  std::vector<Entry> entries;
  AnalyticModel model(ToEstimatorProblem(problem), learnt.calibration);
  for (std::size_t i = 0; i < chooser.candidates().size(); ++i) {
    const ParallelPlan& plan = chooser.candidates()[i].plan;
    const auto outcome = learnt.outcomes.find(plan);
    const bool was_tried = outcome != learnt.outcomes.end();
    const Ran* run = was_tried ? std::get_if<Ran>(&outcome->second) : nullptr;
    if (was_tried && run == nullptr) continue;
    entries.push_back({.plan = was_tried ? RankMeasured(*run, plan, problem, learnt.calibration)
                                         : RankUntried(chooser, i, problem, model),
                       .is_measured = was_tried});
  }
  // Stable: ties stay in canonical order.
  std::ranges::stable_sort(entries, {}, [](const Entry& entry) {
    const Estimate& estimate = entry.plan.estimate;
    return std::tuple(!entry.is_measured, !estimate.fits, estimate.step_time);
  });
  if (entries.size() > static_cast<std::size_t>(plan_count)) {
    entries.resize(static_cast<std::size_t>(plan_count));
  }
  std::vector<RankedPlan> plans;
  plans.reserve(entries.size());
  for (Entry& entry : entries) plans.push_back(std::move(entry.plan));
  return plans;
}

void NoteTrials(const TrialsRun& run, const TrialRepeats& repeats, bool has_best,
                StudyResult& result) {
  NoteQuality(run.tried, result);
  const bool has_reference = std::ranges::any_of(
      run.tried, [](const TriedPlan& trial) { return trial.reference_step_time.has_value(); });
  if (repeats.interleaves_baseline && !run.tried.empty() && !has_reference) {
    result.warnings.emplace_back("no trial could be compared with a run of the baseline");
  }
  if (run.confirming_limit.has_value()) {
    result.warnings.push_back(
        fmt::format("the fastest plans were not all confirmed: {}", Word(*run.confirming_limit)));
  }
  for (const auto& [plan, runs] : RunsByPlan(run.tried)) {
    if (runs.ran_count == 0 || runs.failed_count == 0) continue;
    result.warnings.push_back(fmt::format("plan {} failed in {} of {} runs", MakePlanKey(plan).text,
                                          runs.failed_count, runs.ran_count + runs.failed_count));
  }
  if (!has_best) {
    result.warnings.push_back(fmt::format("none of {} trials measured a step", run.tried.size()));
  }
  if (!run.failure.ok()) {
    const bool is_launcher = run.summary.stop == TrialStop::kLauncherFailed;
    result.warnings.push_back(fmt::format("the {} failed: {}", is_launcher ? "launcher" : "store",
                                          std::string(run.failure.message())));
  }
}

}  // namespace meshwright
