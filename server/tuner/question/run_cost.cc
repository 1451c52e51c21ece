#include "server/tuner/question/run_cost.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/training_run.h"

namespace meshwright {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kSecondsPerDay = 24 * kSecondsPerHour;
constexpr double kWattsPerKilowatt = 1000;

std::optional<double> PriceOf(const TrainingRun& run, std::string_view chip) {
  for (const std::string_view wanted : {chip, std::string_view()}) {
    const auto found = std::ranges::find(run.device_hour_prices, wanted, &DeviceHourPrice::chip);
    if (found != run.device_hour_prices.end()) return found->price;
  }
  return std::nullopt;
}

}  // namespace

RunCost RunCostOf(const TrainingRun& run, const Problem& problem, const Estimate& estimate) {
  const double tokens = static_cast<double>(problem.workload.global_batch_size) *
                        static_cast<double>(problem.workload.sequence_length);
  const double steps = std::ceil(run.token_count / tokens);
  const auto days = [&](Seconds step) { return steps * step.count() / kSecondsPerDay; };
  RunCost cost = {.step_count = steps,
                  .days = days(estimate.step_time),
                  .low_days = days(estimate.step_time_low),
                  .high_days = days(estimate.step_time_high)};
  const NodePool& pool = problem.cluster.pools.front();
  cost.device_hours =
      DeviceCount(problem.cluster) * steps * estimate.step_time.count() / kSecondsPerHour;
  if (pool.power_limit_watts > 0) {
    cost.max_device_energy_kilowatt_hours =
        cost.device_hours * pool.power_limit_watts / kWattsPerKilowatt;
  }
  if (const std::optional<double> price = PriceOf(run, pool.chip.id)) {
    cost.price = *price * cost.device_hours;
  }
  if (run.max_days.has_value()) cost.is_within_max_days = cost.days <= *run.max_days;
  return cost;
}

void AddRunCosts(const std::optional<TrainingRun>& run, const Problem& problem,
                 StudyResult& result) {
  if (!run.has_value()) return;
  const auto add = [&](RankedPlan& ranked) {
    ranked.run = RunCostOf(*run, problem, ranked.estimate);
  };
  for (RankedPlan& ranked : result.plans) add(ranked);
  for (ParetoPoint& point : result.pareto_front) add(point.plan);
  if (result.model_optimum.has_value()) add(*result.model_optimum);
  if (result.baseline.has_value()) add(*result.baseline);
}

}  // namespace meshwright
