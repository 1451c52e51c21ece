#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "server/tuner/residual_process.h"
#include "server/tuner/study.h"
#include "server/tuner/trial.h"

namespace meshwright {

// What is expected of a candidate that has not been tried.
struct Expectation {
  std::size_t candidate = 0;
  Seconds step_time = Seconds(0);  // median, should it run
  double log_sigma = 0;            // of its logarithm
  double success_probability = 0;  // to run at all
};

// Which plan to run next: the one with the greatest expected gain over the best measured so far for
// each second that it occupies the cluster. What is expected is the cost model's estimate,
// corrected by what the trials so far have shown of plans like it; docs/replay.md has the rule and
// its constants. Pure; ties go to the candidate that stands first.
class TrialChooser {
 public:
  // Candidates in canonical order, no plan twice.
  TrialChooser(std::vector<RankedPlan> candidates, int layer_count);

  // Nothing once all have been tried.
  [[nodiscard]] std::optional<Expectation> Next() const;
  [[nodiscard]] Expectation Expect(std::size_t candidate) const;
  // A candidate is tried once.
  void Learn(std::size_t candidate, const TrialOutcome& outcome);

  // Share of the best measured step time that a plan not tried may still save, at two standard
  // deviations below what is expected of it. 1 while nothing has run.
  [[nodiscard]] double RemainingGain() const;

  [[nodiscard]] const std::vector<RankedPlan>& candidates() const { return candidates_; }
  [[nodiscard]] const std::optional<Seconds>& best() const { return best_; }

 private:
  [[nodiscard]] double FitProbability(std::size_t candidate) const;
  [[nodiscard]] double ExpectedGain(const Expectation& expected, Seconds incumbent) const;
  [[nodiscard]] Seconds Incumbent(const std::vector<Expectation>& open) const;

  std::vector<RankedPlan> candidates_;
  std::vector<PlanFeatures> features_;
  ResidualProcess time_;
  ResidualProcess memory_;
  std::vector<bool> tried_;
  std::vector<std::size_t> ran_;
  std::vector<std::size_t> failed_;   // of another cause than memory
  std::vector<Bytes> out_of_memory_;  // modelled
  Bytes largest_run_ = {};            // modelled
  std::optional<Seconds> best_ = {};
};

}  // namespace meshwright
