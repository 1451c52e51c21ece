#include "server/tuner/search/infeasible.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "estimator/layer/layer_split.h"
#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "pruner/rules/history.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/no_legal_plan.h"
#include "server/tuner/search/question_search.h"

namespace meshwright {
namespace {

// Largest changes that are tried: doublings of the nodes, halvings of the sequence.
constexpr int kMaxDoublings = 6;

// Searches for any plan that fits, with the history that the study had.
struct FitProbe {
  const Calibration& calibration;
  SearchOptions options = {};
  bool was_cut = false;

  bool SomethingFits(const Problem& problem) {
    const SearchFound found = BestPlansOf(problem, calibration, options);
    was_cut = was_cut || (found.best.empty() && !found.summary.complete);
    return !found.best.empty();
  }
};

// Returns the least value of [low, high] that works, or nullopt if `high` does not. Every value
// above a working one must work.
template <typename Works>
std::optional<int> LeastThatWorks(int low, int high, const Works& works) {
  if (low > high || !works(high)) return std::nullopt;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (works(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

std::optional<std::string> MoreNodes(const Problem& problem, FitProbe& probe) {
  const int nodes = problem.cluster.pools.front().node_count;
  const auto works = [&](int count) {
    Problem larger = problem;
    larger.cluster.pools.front().node_count = count;
    return probe.SomethingFits(larger);
  };
  // Tries powers of two first. They divide evenly, so a larger one never fits less.
  const auto doublings = LeastThatWorks(1, kMaxDoublings, [&](int k) { return works(nodes << k); });
  if (!doublings.has_value()) return std::nullopt;
  const int enough = nodes << *doublings;
  const int least = LeastThatWorks(enough / 2 + 1, enough, works).value_or(enough);
  return fmt::format("use {} nodes instead of {}", least, nodes);
}

std::optional<std::string> ShorterSequence(const Problem& problem, FitProbe& probe) {
  const int tokens = problem.workload.sequence_length;
  int halvings = 0;
  while (halvings < kMaxDoublings && tokens % (2 << halvings) == 0) ++halvings;
  const auto least = LeastThatWorks(1, halvings, [&](int k) {
    Problem shorter = problem;
    shorter.workload.sequence_length = tokens >> k;
    return probe.SomethingFits(shorter);
  });
  if (!least.has_value()) return std::nullopt;
  return fmt::format("train with sequences of {} tokens instead of {}", tokens >> *least, tokens);
}

std::optional<std::string> SmallerStates(const Problem& problem, FitProbe& probe) {
  Problem lighter = problem;
  if (problem.workload.gradient_dtype == GradientDtype::kFp32) {
    lighter.workload.gradient_dtype = GradientDtype::kBf16;
    if (probe.SomethingFits(lighter)) return "accumulate gradients in bf16 instead of fp32";
  }
  if (problem.workload.optimizer == Optimizer::kAdam) {
    lighter.workload.optimizer = Optimizer::kAdam8bit;
    if (probe.SomethingFits(lighter)) {
      return lighter.workload.gradient_dtype == problem.workload.gradient_dtype
                 ? "use adam8bit instead of adam"
                 : "use adam8bit and bf16 gradients";
    }
  }
  return std::nullopt;
}

// Advises how much memory the device would need, or says that the history contradicts the model.
std::string MemoryAdvice(const RankedPlan& nearest, const Calibration& calibration,
                         const Problem& problem) {
  const Estimate& estimate = nearest.estimate;
  const auto by_history = WhyRuledOut(nearest.plan, calibration, ToEstimatorProblem(problem));
  if (by_history.has_value()) {
    return fmt::format("the model estimates {:.1f} of {:.1f} GiB in use, but {}",
                       estimate.reserved_memory / GiB(1), estimate.memory_capacity / GiB(1),
                       *by_history);
  }
  // Rounded up, so that the suggested memory is enough.
  const double needed = std::ceil(estimate.reserved_memory / GiB(0.1)) / 10;
  return fmt::format("use devices with at least {:.1f} GiB instead of {:.1f} GiB", needed,
                     estimate.memory_capacity / GiB(1));
}

}  // namespace

Infeasible ExplainInfeasible(const Problem& problem, const Calibration& calibration,
                             const SearchFound& found, const SearchOptions& options) {
  Infeasible answer;
  answer.search = found.summary;
  if (!found.nearest.has_value()) {
    answer.suggestions = WhyNothingIsLegal(problem, options);
    return answer;
  }
  AnalyticModel model(ToEstimatorProblem(problem), calibration);
  RankedPlan nearest;
  nearest.plan = WithStatedSplit(found.nearest->plan, problem.model, problem.profile);
  nearest.estimate = model.Full(nearest.plan);
  const MemoryBreakdown& lines = nearest.estimate.memory_breakdown;
  const auto most = std::max_element(lines.begin(), lines.end());
  answer.binding_kind = static_cast<MemoryKind>(std::distance(lines.begin(), most));
  answer.missing =
      std::max(Bytes{0}, nearest.estimate.reserved_memory - nearest.estimate.memory_capacity);
  answer.suggestions.push_back(MemoryAdvice(nearest, calibration, problem));
  FitProbe probe = {.calibration = calibration,
                    .options = {.plan_count = 1,
                                .disabled_rules = options.disabled_rules,
                                .stop = options.stop,
                                .first_fit_is_enough = true}};
  for (const auto& change : {MoreNodes(problem, probe), SmallerStates(problem, probe),
                             ShorterSequence(problem, probe)}) {
    if (change.has_value()) answer.suggestions.push_back(*change);
  }
  if (probe.was_cut) {
    answer.suggestions.emplace_back("the deadline ended the search for further changes");
  }
  answer.nearest = std::move(nearest);
  return answer;
}

}  // namespace meshwright
