#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "estimator/layer/layer_cost.h"
#include "estimator/layer/unit_costs.h"
#include "estimator/model/analytic_model.h"
#include "estimator/model/data_parallel.h"
#include "estimator/model/stage.h"
#include "estimator/pipeline/pipeline.h"
#include "estimator/pipeline/program.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/mixed/mixed_shape.h"

namespace meshwright {

// The cost of one stage of a mixed plan, without its messages.
struct StagePrice {
  bool fits = false;
  int recomputed = 0;  // layers, under MixRecompute::kLeastFull
  Seconds forward = Seconds(0);
  Seconds backward = Seconds(0);
  Seconds tail = Seconds(0);  // of the step, after the pipeline
  bool is_late = false;       // the tail is longer than a search allows
};

// The place of a stage in its pipeline, as far as its cost depends on it.
struct PricedPlace {
  bool is_first = false;
  bool is_last = false;
  int in_flight = 1;  // micro-batches whose activations it holds
  int first_layer = 0;
};

// The facts that are the same for all stages of a stretch.
struct PricedStretch {
  ParallelPlan plan =
      {};                // the fields that hold for all stages; its pipeline has one stage or more
  StagePlan stage = {};  // without layers and recomputation
  MixRecompute recompute = MixRecompute::kNone;
  int micro_batches = 1;                 // no stage ever holds more
  std::optional<ReplicaRing> ring = {};  // of replicas that differ
};

// Returns those of a stretch of a mixed pipeline.
PricedStretch StretchOf(const SharedDegrees& shared, const PoolDegrees& degrees,
                        const Problem& problem);

// Prices the stages of one stretch: by the estimator's own parts, stage by stage, so that a plan
// costs what its stages cost. Remembers the prices.
class StagePrices {
 public:
  // The model outlives the prices.
  StagePrices(const PricedStretch& stretch, AnalyticModel& model);
  StagePrices(const StagePrices&) = delete;  // stages point to the devices
  StagePrices& operator=(const StagePrices&) = delete;

  // Returns the price of a stage of `layers` layers with as little recomputation as fits.
  StagePrice Of(const PricedPlace& place, int layers);

  [[nodiscard]] const StageDevices& devices() const { return devices_; }
  // Returns a lower bound of the time of one layer in both passes.
  [[nodiscard]] Seconds LeastLayer() const { return least_layer_; }
  // Returns lower bounds of the time that the embedding and the output layer add to a stage's
  // layers in both passes.
  [[nodiscard]] Seconds LeastEmbedding() const { return least_embedding_; }
  [[nodiscard]] Seconds LeastHead() const { return least_head_; }
  // Returns a lower bound of the time of all layers of the model, with the embedding and the output
  // layer, in both passes.
  [[nodiscard]] Seconds LeastOfAll(int layers) const;
  // Returns the largest share that the forward pass has in the time of a stage, without messages.
  [[nodiscard]] double MostForward() const { return most_forward_; }
  // Returns a lower bound of the tail of a stage that has so many layers or more; 0 if it depends
  // on which layers these are.
  Seconds LeastTail(int layers);

 private:
  // The price of a stage in all places with the same layers that have no need to recompute more.
  struct Plain {
    int most_in_flight = 0;  // with which it fits
    StagePrice price = {};
  };

  [[nodiscard]] Stage StageWith(const PricedPlace& place, int layers, int recomputed) const;
  [[nodiscard]] bool Fits(const Stage& stage, int in_flight) const;
  [[nodiscard]] StagePrice PriceOf(const Stage& stage, int recomputed) const;
  [[nodiscard]] int MostInFlight(const Stage& stage) const;
  [[nodiscard]] std::uint64_t KeyOf(const PricedPlace& place, int layers) const;
  const Plain& PlainOf(const PricedPlace& place, int layers);
  StagePrice WithLeastRecompute(const PricedPlace& place, int layers);
  [[nodiscard]] Seconds FindLeastLayer() const;
  [[nodiscard]] Seconds LeastBeside(const LayerPasses<PassSums>& end) const;
  [[nodiscard]] double FindMostForward() const;

  AnalyticModel& model_;
  MixRecompute recompute_;
  StagePlan own_;
  int micro_batches_;
  int pipeline_;    // stages, or 2 if there are more
  bool has_kinds_;  // costs depend on which layers a stage has
  StageDevices devices_;
  std::unique_ptr<TailModel> tails_;
  const UnitSums* sums_;
  double time_ratio_ = 1;  // what runs have taught of the pool's chip
  Seconds least_layer_ = Seconds(0);
  Seconds least_embedding_ = Seconds(0);
  Seconds least_head_ = Seconds(0);
  double most_forward_ = 1;
  // The tables are only looked up, never walked.
  absl::flat_hash_map<std::uint64_t, Plain> plain_;
  absl::flat_hash_map<int, Seconds> tails_of_layers_;
  absl::flat_hash_map<std::pair<std::uint64_t, int>, StagePrice> recomputing_;
};

}  // namespace meshwright
