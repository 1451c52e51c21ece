#include "estimator/model/unit_cost_cache.h"

#include "estimator/layer/layer_cost.h"
#include "estimator/layer/layer_program.h"
#include "estimator/layer/parameters.h"
#include "search_space/spec/model.h"

namespace meshwright {

UnitCostCache::UnitCostCache(const EstimatorProblem& problem)
    : problem_(problem),
      layers_(problem.model),
      default_modules_(ModulesOf(problem.profile.selective_modules)) {
  matmuls_.reserve(problem.cluster.pools.size());
  for (const NodePool& pool : problem.cluster.pools) {
    matmuls_.emplace_back(pool.chip, RatesOf(pool, problem.workload));
  }
}

int UnitCostCache::IndexOf(const NodePool& pool) const {
  return static_cast<int>(&pool - problem_.cluster.pools.data());
}

LayerContext UnitCostCache::ContextOf(const LayerSharding& sharding) const {
  return {.model = problem_.model,
          .workload = problem_.workload,
          .profile = problem_.profile,
          .sharding = sharding};
}

LayerSite UnitCostCache::SiteOf(const LayerSharding& sharding, const NodePool& pool) {
  return PlaceLayer(sharding, pool, problem_.cluster.topology,
                    matmuls_[static_cast<std::size_t>(IndexOf(pool))]);
}

UnitCostCache::Entry& UnitCostCache::EntryOf(const LayerSharding& sharding, const NodePool& pool,
                                             ModuleSet selective) {
  const int index = IndexOf(pool);
  if (last_ != nullptr && last_->key.sharding == sharding && last_->key.pool == index &&
      last_->key.selective == selective) {
    return *last_;
  }
  const Key key = {.sharding = sharding, .pool = index, .selective = selective};
  std::unique_ptr<Entry>& entry = entries_[key];
  if (entry == nullptr) {
    entry = std::make_unique<Entry>(
        Entry{.key = key,
              .costs = MeasureUnits(ContextOf(sharding), layers_, selective),
              .priced = nullptr});
  }
  last_ = entry.get();
  return *entry;
}

UnitCostCache::Entry& UnitCostCache::EntryOf(const StageDevices& devices) {
  if (last_ != nullptr && devices.unit == &last_->costs) return *last_;
  return EntryOf(devices.sharding, *devices.pool, devices.unit->selective);
}

const UnitCosts& UnitCostCache::CostsOf(const LayerSharding& sharding, const NodePool& pool,
                                        const RecomputePlan& recompute) {
  const ModuleSet selective =
      recompute.modules.empty() ? default_modules_ : ModulesOf(recompute.modules);
  return EntryOf(sharding, pool, selective).costs;
}

const PricedUnit* UnitCostCache::KnownTimesOf(const StageDevices& devices) {
  return EntryOf(devices).priced.get();
}

const PricedUnit& UnitCostCache::TimesOf(const StageDevices& devices) {
  Entry& entry = EntryOf(devices);
  if (entry.priced == nullptr) {
    const UnitTimes times =
        PriceUnits(ContextOf(devices.sharding), layers_, SiteOf(devices.sharding, *devices.pool),
                   devices.unit->selective);
    entry.priced = std::make_unique<PricedUnit>(PricedUnit{.sums = SumsOf(times), .times = times});
  }
  return *entry.priced;
}

Seconds UnitCostCache::WholeModel(const UnitTimes& unit) const {
  const ModelSpec& model = problem_.model;
  const LayerCounts layers = layers_.Count(0, model.layer_count);
  PassTime work =
      unit.embedding.forward + unit.embedding.backward + unit.head.forward + unit.head.backward;
  for (std::size_t i = 0; i < unit.kinds.size(); ++i) {
    AddScaled(work, unit.kinds[i].forward + unit.kinds[i].backward, layers[i]);
  }
  AddScaled(work, unit.mtp.forward + unit.mtp.backward, model.mtp_layer_count);
  return DeviceWithHost(work.device, work.host);
}

Seconds UnitCostCache::WholeModelTime(const LayerSharding& sharding) {
  auto found = whole_models_.find(sharding);
  if (found == whole_models_.end()) {
    const LayerSite site = SiteOf(sharding, problem_.cluster.pools.front());
    const UnitTimes unit = PriceUnits(ContextOf(sharding), layers_, site, 0);
    found = whole_models_.emplace(sharding, WholeModel(unit)).first;
  }
  return found->second;
}

Seconds UnitCostCache::WholeModelTimeWithBestExperts(const LayerSharding& sharding) {
  auto found = whole_models_with_best_experts_.find(sharding);
  if (found == whole_models_with_best_experts_.end()) {
    const LayerSite site = SiteOf(sharding, problem_.cluster.pools.front());
    const UnitTimes unit = PriceUnitsWithBestExperts(ContextOf(sharding), layers_, site);
    found = whole_models_with_best_experts_.emplace(sharding, WholeModel(unit)).first;
  }
  return found->second;
}

}  // namespace meshwright
