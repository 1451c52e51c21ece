#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "estimator/layer/layer_cost.h"
#include "estimator/layer/layer_program.h"
#include "estimator/layer/unit_costs.h"
#include "estimator/model/stage.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/matmul.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Times of the layers that a UnitCosts describes.
struct PricedUnit {
  UnitSums sums = {};
  UnitTimes times = {};  // for breakdowns
};

// Remembers the costs of layers, which most plans of a search share. A memo table: every function
// but KnownTimesOf returns what it would compute from its arguments and the problem, whatever was
// asked before.
// References stay valid as long as the cache. Not for use from several threads at once.
class UnitCostCache {
 public:
  // The referents of `problem` outlive the cache.
  explicit UnitCostCache(const EstimatorProblem& problem);

  // Returns the memory and the parameters of layers on a device of `pool`, which is one of the
  // problem's. Selective recomputation is that of `recompute`.
  const UnitCosts& CostsOf(const LayerSharding& sharding, const NodePool& pool,
                           const RecomputePlan& recompute);
  // Returns the times of the same layers. They cost far more than memory, and most plans of a
  // search are dropped for their memory.
  const PricedUnit& TimesOf(const StageDevices& devices);
  // Returns the same if they are known already, else nullptr.
  [[nodiscard]] const PricedUnit* KnownTimesOf(const StageDevices& devices);

  // The problem's layers by kind.
  [[nodiscard]] const LayerList& layers() const { return layers_; }

  // Returns the time of one micro-batch in all layers of the model, on devices of the first pool
  // that divide only the layers: host and device time hide one another as well as they can.
  Seconds WholeModelTime(const LayerSharding& sharding);
  // Returns a lower bound of the same for any way to divide the routed experts. `sharding` divides
  // none.
  Seconds WholeModelTimeWithBestExperts(const LayerSharding& sharding);

 private:
  struct Key {
    LayerSharding sharding;
    int pool;
    ModuleSet selective;
    bool operator==(const Key&) const = default;

    template <typename H>
    friend H AbslHashValue(H hash, const Key& key) {
      return H::combine(std::move(hash), key.sharding,
                        Packed(key.pool, static_cast<int>(key.selective)));
    }
  };
  struct Entry {
    Key key;
    UnitCosts costs;
    std::unique_ptr<PricedUnit> priced;  // absent until a time is asked for
  };
  using WholeModelTimes = absl::flat_hash_map<LayerSharding, Seconds>;

  Entry& EntryOf(const LayerSharding& sharding, const NodePool& pool, ModuleSet selective);
  Entry& EntryOf(const StageDevices& devices);
  [[nodiscard]] int IndexOf(const NodePool& pool) const;
  [[nodiscard]] LayerContext ContextOf(const LayerSharding& sharding) const;
  [[nodiscard]] LayerSite SiteOf(const LayerSharding& sharding, const NodePool& pool);
  [[nodiscard]] Seconds WholeModel(const UnitTimes& unit) const;

  EstimatorProblem problem_;
  LayerList layers_;
  ModuleSet default_modules_;         // modules of selective recomputation
  std::vector<MatmulTimes> matmuls_;  // one for each pool
  // The tables are only looked up, never walked.
  absl::flat_hash_map<Key, std::unique_ptr<Entry>> entries_;
  Entry* last_ = nullptr;  // neighbours in a search share it
  WholeModelTimes whole_models_;
  WholeModelTimes whole_models_with_best_experts_;
};

}  // namespace meshwright
