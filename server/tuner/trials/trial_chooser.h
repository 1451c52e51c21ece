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

// The expectation of a candidate; for one that ran, its measured time.
struct Expectation {
  std::size_t candidate = 0;
  Seconds step_time = Seconds(0);  // median, if it runs
  double log_sigma = 0;            // standard deviation of its logarithm
  double success_probability = 0;  // probability that it runs at all
};

// Chooses which plan to run next: the one with the greatest expected gain over the best measured so
// far, per second that it occupies the cluster. After several trials without gain it chooses a plan
// unlike all tried ones. The expectation is the cost model's estimate, corrected by the results of
// similar plans so far; docs/replay/choosing.md has the rule and its constants. Pure. A tie
// goes to the candidate that comes first.
class TrialChooser {
 public:
  // Takes candidates in canonical order without duplicates. `disabled_rules` rule nothing out.
  TrialChooser(std::vector<RankedPlan> candidates, int layer_count,
               std::vector<std::string> disabled_rules = {});

  // Returns nullopt once all have been tried.
  [[nodiscard]] std::optional<Expectation> Next() const;
  [[nodiscard]] Expectation Expect(std::size_t candidate) const;
  // Returns the prune rule that makes a trial of the candidate unnecessary: `memory`, `history` (a
  // plan with no more modelled memory ran out of memory) or `bound` (it is slower than the best
  // measured even if it is far faster than expected). Returns nullopt while nothing has run. Next()
  // takes all other candidates first.
  [[nodiscard]] std::optional<std::string_view> RuledOutBy(std::size_t candidate) const;
  // Returns the lower limit of a candidate's step time that the rule `bound` uses.
  [[nodiscard]] Seconds LeastTime(std::size_t candidate) const;
  // Learns an outcome. Called once per candidate, except that a cancelled trial may be followed by
  // one that proves something.
  void Learn(std::size_t candidate, const TrialOutcome& outcome);
  // Marks everything learnt so far as part of the history.
  void BeginTrials() { first_trial_ = learnt_.size(); }
  // Replaces the estimates. The candidates and their order stay the same, and everything learnt is
  // applied to the new estimates.
  void Reconsider(std::vector<RankedPlan> candidates);

  // Returns the least of the untried plans' step times at two standard deviations below
  // expectation, or nullopt if none is worth a trial.
  [[nodiscard]] std::optional<Seconds> LeastOptimistic() const;
  // Returns the share of the best measured step time that such a plan may still save; 1 while
  // nothing has run.
  [[nodiscard]] double RemainingGain() const;

  [[nodiscard]] const std::vector<RankedPlan>& candidates() const { return candidates_; }
  [[nodiscard]] bool was_tried(std::size_t candidate) const { return tried_[candidate]; }
  [[nodiscard]] std::optional<Seconds> best() const {
    return best_.has_value() ? std::optional(best_->step_time) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::size_t> best_candidate() const {
    return best_.has_value() ? std::optional(best_->candidate) : std::nullopt;
  }
  // Returns the plan with the least modelled memory that ran out of memory, unless a larger one
  // ran.
  [[nodiscard]] std::optional<std::size_t> SmallestOutOfMemory() const;

 private:
  [[nodiscard]] bool IsOn(std::string_view rule) const;
  [[nodiscard]] bool HasRunOut(std::size_t candidate) const;
  [[nodiscard]] bool IsContradicted(std::size_t candidate) const;
  [[nodiscard]] double FitProbability(std::size_t candidate) const;
  void ObserveLackOfMemory(std::size_t candidate);
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
  std::vector<std::size_t> failed_;  // failed for another reason than memory
  std::vector<std::size_t> out_of_memory_;
  Bytes largest_run_ = {};  // modelled
  struct Best {
    std::size_t candidate = 0;
    Seconds step_time = Seconds(0);
  };
  std::optional<Best> best_ = {};
  std::size_t first_trial_ = 0;  // index into learnt_
};

}  // namespace meshwright
