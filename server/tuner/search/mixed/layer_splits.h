#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "search_space/base/units.h"
#include "server/tuner/search/mixed/mixed_pipeline.h"
#include "server/tuner/search/mixed/mixed_shape.h"

namespace meshwright {

// Two step times that differ by less than this share are equal: sums over all operations round.
inline constexpr double kEqualShare = 1e-9;

// The search of the layers of each stage.
struct SplitSearch {
  // Step time above which a split is of no use. `visit` may lower it.
  Seconds useful = Seconds(0);
  std::int64_t nodes_left = 0;  // partial splits that may still be looked at
  // Receives each split whose bound is below `useful`; it decides what the split takes.
  std::function<void(const std::vector<StageLayers>&)> visit = {};
  // The least bound of the splits that were left out because no nodes were left.
  std::optional<Seconds> least_left_out = {};
};

// All ways to share out the layers of a model over the stages of a pipeline, each of which has at
// least one. Keeps for every stage and first layer a lower bound of the rest of the pipeline.
class LayerSplits {
 public:
  // Holds the least costs of the stages from one on, if they begin with a given layer. Each is that
  // of the best split for it.
  struct Rest {
    Seconds sum = Seconds(0);    // both passes of all stages, and the messages between them
    Seconds bound = Seconds(0);  // the pipeline, without what stands before
    Seconds tail = Seconds(0);   // the longest
    bool is_possible = false;
  };
  using Table = std::vector<Rest>;

  // Leaves out the splits with a step time of `useful` or more. The pipeline outlives the splits;
  // so does the table, which saves each of many to find memory for its own.
  LayerSplits(const MixedPipeline& pipeline, Seconds useful, Table& table);

  // Returns a lower bound of the step times of all splits, or nullopt if none fits and is useful.
  [[nodiscard]] std::optional<Seconds> Least() const;

  // Visits every split that may be useful, the most promising first.
  void Search(SplitSearch& search) const;

 private:
  // A partial split.
  struct Node {
    int stage = 0;
    int first_layer = 0;
    Seconds before = Seconds(0);
    Seconds bound = Seconds(0);  // of the stages that are set
    Seconds tail = Seconds(0);
  };
  struct Child {
    Seconds least = Seconds(0);
    StageLayers own = {};
    Node node = {};
  };

  [[nodiscard]] const Rest& RestFrom(int stage, int first_layer) const;
  [[nodiscard]] Rest FindRest(int stage, int first_layer, int most_layers) const;
  [[nodiscard]] int MostLayers(int stage, int first_layer) const;
  [[nodiscard]] Seconds Around(int stage, const StagePrice& price, Seconds before,
                               Seconds behind) const;
  [[nodiscard]] Seconds StepOf(Seconds bound, Seconds tail) const;
  [[nodiscard]] std::vector<Child> ChildrenOf(const Node& node, Seconds useful) const;
  [[nodiscard]] Seconds BoundOf(const std::vector<StageLayers>& split) const;
  void Descend(const Node& node, std::vector<StageLayers>& split, SplitSearch& search) const;

  const MixedPipeline& pipeline_;
  Seconds most_;  // for the work of one stage
  Table& rests_;  // empty: no split is useful
};

}  // namespace meshwright
