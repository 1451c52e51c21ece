#pragma once

#include <optional>
#include <span>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "estimator/pipeline/program.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/mixed/mixed_shape.h"
#include "server/tuner/search/mixed/stage_prices.h"

namespace meshwright {

// The messages of the stretches of a shape.
struct StretchHops {
  Hop inside = {};  // between two of its stages
  Hop behind = {};  // to the next stretch
};

// Returns true if messages lie beside computation, and false if the stages wait for them.
bool SendsBesideWork(const EstimatorProblem& problem);

// Returns the messages that a stage waits for, which lie before and behind it.
inline const Hop& LongerOf(const Hop& before, const Hop& behind) {
  return Sum(before) > Sum(behind) ? before : behind;
}

// The pipeline of a mixed shape, whose stages can be priced one by one: those of a plan have the
// prices of its stages.
class MixedPipeline {
 public:
  // `prices` and `hops` are those of the shape's stretches. All referents outlive the pipeline.
  MixedPipeline(const MixedShape& shape, std::vector<StagePrices*> prices,
                std::span<const StretchHops> hops, const Problem& problem, AnalyticModel& model);

  // The pipeline of one replica of a plan whose replicas differ. Its costs are those of the
  // pipeline alone, without tails and the factor on whole steps. `plan` has no other group. All
  // referents outlive the pipeline.
  MixedPipeline(const ParallelPlan& plan, StagePrices& prices, AnalyticModel& model);

  // Returns the pipeline of a replica with so many micro-batches whose tails are shorter than
  // `end`.
  [[nodiscard]] MixedPipeline With(int micro_batches, Seconds end) const;

  // Returns the longest tail of a replica's stages.
  [[nodiscard]] Seconds TailOf(const std::vector<StageLayers>& split) const;

  // Returns the price of a stage, with the messages that occupy it.
  [[nodiscard]] StagePrice PriceOf(int stage, int first_layer, int layers) const;
  // Returns an upper bound of the layers of a stage that takes at most `work` for a micro-batch.
  [[nodiscard]] int MostLayers(int stage, Seconds work) const;
  // Returns both messages that lie behind a stage and beside computation.
  [[nodiscard]] Seconds HopBehind(int stage) const;

  [[nodiscard]] int stages() const { return static_cast<int>(stretch_of_.size()); }
  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] int micro_batches() const { return micro_batches_; }
  // The factor on the sum of pipeline, tail and fixed time that makes it the step time.
  [[nodiscard]] double time_ratio() const { return time_ratio_; }
  [[nodiscard]] Seconds fixed() const { return fixed_; }

 private:
  [[nodiscard]] StagePrice BarePriceOf(int stage, int first_layer, int layers) const;
  // Takes the messages behind each stage but the last.
  void PlaceMessages(const std::vector<Hop>& behind, const EstimatorProblem& problem);

  int layers_;
  int micro_batches_;
  double time_ratio_;
  Seconds fixed_;
  std::vector<StagePrices*> prices_;
  std::vector<int> stretch_of_;  // of each stage
  std::vector<Hop> occupying_;   // messages that a stage waits for in its passes
  std::vector<Seconds> hops_;    // behind each stage, beside computation
  Seconds tied_ = Seconds(0);
  std::optional<Seconds> end_ = {};  // of the tails of a replica, which are left out of the prices
};

}  // namespace meshwright
