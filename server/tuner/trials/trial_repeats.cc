#include "server/tuner/trials/trial_repeats.h"

#include <algorithm>
#include <utility>

#include "search_space/base/median.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"

namespace meshwright {
namespace {

std::optional<Seconds> TimeOf(const TrialOutcome& outcome) {
  const auto* ran = std::get_if<Ran>(&outcome);
  return ran == nullptr ? std::nullopt : std::optional(ran->step_time);
}

struct BaselineRuns {
  int count = 0;
  std::optional<Seconds> first = {};
  std::optional<Seconds> last = {};
};

BaselineRuns BaselineRunsOf(const std::vector<TriedPlan>& tried) {
  BaselineRuns runs;
  for (const TriedPlan& trial : tried) {
    if (trial.plan != tried.front().plan) continue;
    ++runs.count;
    const std::optional<Seconds> time = TimeOf(trial.outcome);
    if (!time.has_value()) continue;
    runs.first = runs.first.value_or(*time);
    runs.last = time;
  }
  return runs;
}

// Returns true if trials are, or will be, compared with the baseline.
bool IsCompared(const std::vector<TriedPlan>& tried, const TrialRepeats& repeats) {
  if (!repeats.interleaves_baseline || tried.empty()) return false;
  const BaselineRuns runs = BaselineRunsOf(tried);
  const bool proved_nothing = std::holds_alternative<Cancelled>(tried.front().outcome);
  return runs.first.has_value() || (proved_nothing && runs.count == 1);
}

// A plan that ran, judged by all its trials.
struct Standing {
  ParallelPlan plan = {};
  Seconds step_time = Seconds(0);
  int confirming_runs = 0;
};

std::vector<Standing> Standings(const std::vector<TriedPlan>& tried) {
  std::vector<Standing> standings;
  for (const auto& [plan, runs] : RunsByPlan(tried)) {
    const std::optional<Seconds> time = TimeOf(runs.outcome);
    if (!time.has_value()) continue;
    const auto confirms = [&plan = plan](const TriedPlan& trial) {
      return trial.plan == plan && trial.purpose == TrialPurpose::kConfirm;
    };
    standings.push_back(
        {.plan = plan,
         .step_time = *time,
         .confirming_runs = static_cast<int>(std::ranges::count_if(tried, confirms))});
  }
  std::ranges::stable_sort(standings, {}, &Standing::step_time);
  return standings;
}

}  // namespace

TrialRole RoleOf(const ParallelPlan& plan, const TrialOutcome& outcome,
                 const std::vector<TriedPlan>& before, const TrialRepeats& repeats) {
  const bool is_repeated = std::ranges::find(before, plan, &TriedPlan::plan) != before.end();
  const bool is_baseline = before.empty() || plan == before.front().plan;
  TrialRole role;
  if (!repeats.interleaves_baseline) {
    if (is_repeated) role.purpose = TrialPurpose::kConfirm;
    return role;
  }
  if (is_repeated) role.purpose = is_baseline ? TrialPurpose::kReference : TrialPurpose::kConfirm;
  role.reference_step_time = is_baseline ? TimeOf(outcome) : BaselineRunsOf(before).last;
  return role;
}

bool IsReferenceDue(const std::vector<TriedPlan>& tried, const TrialRepeats& repeats) {
  if (!IsCompared(tried, repeats)) return false;
  return tried.back().plan != tried.front().plan || !BaselineRunsOf(tried).first.has_value();
}

double SlownessNow(const std::vector<TriedPlan>& tried, const TrialRepeats& repeats) {
  if (!IsCompared(tried, repeats)) return 1;
  const BaselineRuns runs = BaselineRunsOf(tried);
  return runs.first.has_value() ? *runs.last / *runs.first : 1;
}

TrialOutcome Judged(const TriedPlan& trial, const std::vector<TriedPlan>& tried) {
  const auto* ran = std::get_if<Ran>(&trial.outcome);
  if (ran == nullptr || !trial.reference_step_time.has_value()) return trial.outcome;
  const Seconds unit = BaselineRunsOf(tried).first.value();  // the reference is one of its runs
  return Ran{.step_time = ran->step_time / *trial.reference_step_time * unit,
             .peak_memory = ran->peak_memory};
}

std::map<ParallelPlan, PlanRuns> RunsByPlan(const std::vector<TriedPlan>& tried) {
  std::map<ParallelPlan, PlanRuns> all;
  std::map<ParallelPlan, std::vector<Ran>> measured;
  for (const TriedPlan& trial : tried) {
    PlanRuns& runs = all[trial.plan];
    const TrialOutcome judged = Judged(trial, tried);
    if (const auto* ran = std::get_if<Ran>(&judged)) {
      ++runs.ran_count;
      measured[trial.plan].push_back(*ran);
    } else if (!std::holds_alternative<Cancelled>(judged)) {
      ++runs.failed_count;
      runs.outcome = judged;
    }
  }
  for (const auto& [plan, each] : measured) {
    PlanRuns& runs = all[plan];
    if (runs.failed_count > runs.ran_count) continue;
    std::vector<double> times;
    times.reserve(each.size());
    std::optional<Bytes> peak;
    for (const Ran& ran : each) {
      times.push_back(ran.step_time.count());
      peak = std::max(peak, ran.peak_memory);
    }
    runs.outcome = Ran{.step_time = Seconds(Median(std::move(times))), .peak_memory = peak};
  }
  return all;
}

std::optional<ParallelPlan> NextToConfirm(const std::vector<TriedPlan>& tried,
                                          const TrialRepeats& repeats) {
  std::vector<Standing> fastest = Standings(tried);
  // The plan that all are compared with needs no confirmation.
  if (IsCompared(tried, repeats)) {
    std::erase_if(fastest, [&](const Standing& s) { return s.plan == tried.front().plan; });
  }
  const auto count = static_cast<std::size_t>(std::max(0, repeats.confirmed_plans));
  if (fastest.size() > count) fastest.resize(count);
  const auto least = std::ranges::min_element(fastest, {}, &Standing::confirming_runs);
  if (least == fastest.end() || least->confirming_runs >= kConfirmingRuns) return std::nullopt;
  return least->plan;
}

}  // namespace meshwright
