#include "server/tuner/trials/trial_pruning.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "estimator/learning/calibration.h"
#include "pruner/rules/history.h"
#include "pruner/rules/prune_rule.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace {

std::string KeyOf(const ParallelPlan& plan) { return MakePlanKey(plan).text; }

// The candidates that one rule leaves out.
class Removed {
 public:
  Removed(const TrialChooser& chooser, std::string_view rule) {
    for (std::size_t i = 0; i < chooser.candidates().size(); ++i) {
      if (!chooser.was_tried(i) && chooser.RuledOutBy(i) == rule) all_.push_back(i);
    }
  }

  [[nodiscard]] std::size_t count() const { return all_.size(); }

  // Returns the candidate with the least amount. There must be at least one.
  template <typename Amount>
  [[nodiscard]] std::size_t Least(const Amount& amount) const {
    return *std::ranges::min_element(all_, {}, amount);
  }

 private:
  std::vector<std::size_t> all_;
};

std::string WhyTooLarge(const TrialChooser& chooser, const Removed& removed,
                        const std::optional<FailedRun>& in_history) {
  const auto size = [&](std::size_t i) { return chooser.candidates()[i].estimate.reserved_memory; };
  const std::size_t i = removed.Least(size);
  const RankedPlan& plan = chooser.candidates()[i];
  std::string smallest = fmt::format("the smallest, {}, is estimated at {:.2f} GiB",
                                     KeyOf(plan.plan), size(i) / GiB(1));
  if (chooser.RuledOutBy(i) == kMemoryRule) {
    return fmt::format("{} of {:.2f} GiB, and after the trials runs with probability {:.2g}",
                       smallest, plan.estimate.memory_capacity / GiB(1),
                       chooser.Expect(i).success_probability);
  }
  const std::optional<std::size_t> failed = chooser.SmallestOutOfMemory();
  if (!failed.has_value() || size(i) < size(*failed)) {
    if (!in_history.has_value()) return smallest;  // impossible: a run has contradicted it
    return fmt::format(
        "{}, not less than the {:.2f} GiB of {}, which ran out of memory in the history", smallest,
        in_history->reserved_memory / GiB(1), NameOf(*in_history));
  }
  return fmt::format("{}, not less than the {:.2f} GiB of {}, which ran out of memory", smallest,
                     size(*failed) / GiB(1), KeyOf(chooser.candidates()[*failed].plan));
}

std::string WhyTooSlow(const TrialChooser& chooser, const Removed& removed) {
  const auto least = [&](std::size_t i) { return chooser.LeastTime(i); };
  const std::size_t i = removed.Least(least);
  return fmt::format(
      "the nearest, {}, is expected to take {:.4g} s and at least {:.4g} s, but {} ran in {:.4g} "
      "s",
      KeyOf(chooser.candidates()[i].plan), chooser.Expect(i).step_time.count(), least(i).count(),
      KeyOf(chooser.candidates()[chooser.best_candidate().value()].plan),
      chooser.best().value().count());
}

}  // namespace

void NotePruned(const TrialChooser& chooser, const std::optional<FailedRun>& in_history,
                StudyResult& result) {
  for (const std::string_view rule : {kMemoryRule, kHistoryRule, kBoundRule}) {
    const Removed removed(chooser, rule);
    result.search.pruned_count_by_rule.emplace_back(std::string(rule), removed.count());
    if (removed.count() == 0) continue;
    result.warnings.push_back(
        fmt::format("rule {}: {} candidates need no trial: {}", rule, removed.count(),
                    rule == kBoundRule ? WhyTooSlow(chooser, removed)
                                       : WhyTooLarge(chooser, removed, in_history)));
  }
}

}  // namespace meshwright
