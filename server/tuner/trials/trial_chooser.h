#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search_space/base/units.h"
#include "server/tuner/learning/residual_process.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// What is expected of a candidate; of one that ran, what it took.
struct Expectation {
  std::size_t candidate = 0;
  Seconds step_time = Seconds(0);  // median, should it run
  double log_sigma = 0;            // of its logarithm
  double success_probability = 0;  // to run at all
};

// Which plan to run next: the one with the greatest expected gain over the best measured so far for
// each second that it occupies the cluster; after some without gain, one unlike all that were
// tried. What is expected is the cost model's estimate, corrected by what the trials so far have
// shown of plans like it; docs/replay.md has the rule and its constants. Pure; ties go to the
// candidate that stands first.
class TrialChooser {
 public:
  // Candidates in canonical order, no plan twice. `disabled_rules` rule nothing out.
  TrialChooser(std::vector<RankedPlan> candidates, int layer_count,
               std::vector<std::string> disabled_rules = {});

  // Nothing once all have been tried.
  [[nodiscard]] std::optional<Expectation> Next() const;
  [[nodiscard]] Expectation Expect(std::size_t candidate) const;
  // The prune rule by which a candidate need not be tried: `memory`, `history` (what ran out of
  // memory is modelled at no more) or `bound` (even far below what is expected of it, it is slower
  // than the best measured). Nothing while nothing has run. Next() takes all others first.
  [[nodiscard]] std::optional<std::string_view> RuledOutBy(std::size_t candidate) const;
  // The step time that a candidate is not expected to be below, for that rule.
  [[nodiscard]] Seconds LeastTime(std::size_t candidate) const;
  // Once for a candidate, but that what was cancelled may be followed by what proves something.
  void Learn(std::size_t candidate, const TrialOutcome& outcome);
  // What was learnt so far comes from the history.
  void BeginTrials() { first_trial_ = learnt_.size(); }
  // The same candidates in the same order, with other estimates, held against all that was learnt.
  void Reconsider(std::vector<RankedPlan> candidates);

  // The least step time of the plans not tried at two standard deviations below what is expected of
  // them. Nothing where none is worth a trial.
  [[nodiscard]] std::optional<Seconds> LeastOptimistic() const;
  // Share of the best measured step time that such a plan may still save. 1 while nothing has run.
  [[nodiscard]] double RemainingGain() const;

  [[nodiscard]] const std::vector<RankedPlan>& candidates() const { return candidates_; }
  [[nodiscard]] bool was_tried(std::size_t candidate) const { return tried_[candidate]; }
  [[nodiscard]] std::optional<Seconds> best() const {
    return best_.has_value() ? std::optional(best_->step_time) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::size_t> best_candidate() const {
    return best_.has_value() ? std::optional(best_->candidate) : std::nullopt;
  }
  // The smallest by the model of those that ran out of memory, where none that is larger ran.
  [[nodiscard]] std::optional<std::size_t> SmallestOutOfMemory() const;

 private:
  [[nodiscard]] bool IsOn(std::string_view rule) const;
  [[nodiscard]] bool HasRunOut(std::size_t candidate) const;
  [[nodiscard]] bool IsContradicted(std::size_t candidate) const;
  [[nodiscard]] double FitProbability(std::size_t candidate) const;
  [[nodiscard]] double ExpectedGain(const Expectation& expected, Seconds incumbent) const;
  [[nodiscard]] int TrialsWithoutGain() const;
  [[nodiscard]] bool IsUnexplored(const Expectation& expected, Seconds incumbent) const;
  [[nodiscard]] Seconds Incumbent(const std::vector<Expectation>& open) const;

  std::vector<RankedPlan> candidates_;
  int layer_count_;
  std::vector<std::string> disabled_rules_;
  std::vector<PlanFeatures> features_;
  ResidualProcess time_;
  ResidualProcess memory_;
  std::vector<std::pair<std::size_t, TrialOutcome>> learnt_;
  std::vector<bool> tried_;
  std::vector<std::size_t> ran_;
  std::vector<std::size_t> failed_;  // of another cause than memory
  std::vector<std::size_t> out_of_memory_;
  Bytes largest_run_ = {};  // modelled
  struct Best {
    std::size_t candidate = 0;
    Seconds step_time = Seconds(0);
  };
  std::optional<Best> best_ = {};
  std::size_t first_trial_ = 0;  // of what was learnt
};

}  // namespace meshwright
