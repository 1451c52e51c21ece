#include "server/tuner/search/mixed/stage_prices.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "estimator/layer/layer_cost.h"
#include "estimator/model/memory.h"
#include "estimator/model/memory_model.h"
#include "estimator/model/model_caches.h"
#include "estimator/model/stage_devices.h"
#include "estimator/model/stage_runs.h"
#include "estimator/model/unit_cost_cache.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/layer_list.h"

namespace meshwright {
namespace {

// No model has more layers, and no plan more micro-batches in flight (kLargestSize).
constexpr unsigned kSizeBits = 20;

PassSums BothPasses(const LayerPasses<PassSums>& layer, MixRecompute recompute) {
  PassSums sum = layer.forward;
  AddScaled(sum, layer.backward, 1);
  if (recompute == MixRecompute::kSelective) AddScaled(sum, layer.selective, 1);
  if (recompute == MixRecompute::kEveryLayer) AddScaled(sum, layer.full, 1);
  return sum;
}

Seconds WallOf(const LayerPasses<PassSums>& layer, MixRecompute recompute, bool with_host) {
  const PassSums sum = BothPasses(layer, recompute);
  return with_host ? DeviceWithHost(sum.device, sum.host) : sum.device;
}

double Cubed(double value) { return value * value * value; }

}  // namespace

PricedStretch StretchOf(const SharedDegrees& shared, const PoolDegrees& degrees,
                        const Problem& problem) {
  // Every mixed plan has two stages or more, and its costs do not depend on how many more.
  return {.plan = FlatPlanOf(shared, 2, problem),
          .stage = StageOf(degrees, shared, problem),
          .recompute = shared.recompute,
          .micro_batches = problem.workload.global_batch_size / shared.sequences};
}

StagePrices::StagePrices(const PricedStretch& stretch, AnalyticModel& model)
    : model_(model),
      recompute_(stretch.recompute),
      own_(stretch.stage),
      micro_batches_(stretch.micro_batches),
      pipeline_(std::min(2, stretch.plan.pipeline_parallel)),
      has_kinds_(model.caches().units.layers().kinds().size() > 1) {
  const ParallelPlan& plan = stretch.plan;
  own_.recompute = RecomputeOf(recompute_, 0);
  devices_ = BareDevices(plan, own_, model.problem());
  UnitCostCache& units = model.caches().units;
  devices_.unit = &units.CostsOf(devices_.sharding, *devices_.pool, own_.recompute);
  devices_.ring = stretch.ring;
  devices_.states = StateShardingOf(plan, devices_);
  sums_ = &units.TimesOf(devices_).sums;
  time_ratio_ = model.time().RatioOf(devices_);
  tails_ = std::make_unique<TailModel>(devices_, model.memory().state_bytes(), model.problem());
  least_layer_ = FindLeastLayer();
  least_embedding_ = LeastBeside(sums_->embedding);
  least_head_ = LeastBeside(sums_->head);
  most_forward_ = FindMostForward();
}

// Times of layers that follow one another do not add up if they differ in what the host adds, but
// those of the device do.
Seconds StagePrices::FindLeastLayer() const {
  const auto& kinds = sums_->kinds;
  Seconds least = WallOf(kinds.front(), recompute_, !has_kinds_);
  for (const LayerPasses<PassSums>& kind : kinds) {
    least = std::min(least, WallOf(kind, recompute_, !has_kinds_));
  }
  return time_ratio_ * least;
}

// DeviceWithHost is convex and grows in proportion to both: whatever is added to any number of
// equal layers adds at least its share along the slope there.
Seconds StagePrices::LeastBeside(const LayerPasses<PassSums>& end) const {
  const PassSums added = BothPasses(end, MixRecompute::kNone);
  if (has_kinds_) return time_ratio_ * added.device;
  const PassSums layer = BothPasses(sums_->kinds.front(), recompute_);
  const Seconds wall = DeviceWithHost(layer.device, layer.host);
  return time_ratio_ *
         (Cubed(layer.device / wall) * added.device + Cubed(layer.host / wall) * added.host);
}

Seconds StagePrices::LeastOfAll(int layers) const {
  Seconds device(std::numeric_limits<double>::max());
  for (const LayerPasses<PassSums>& kind : sums_->kinds) {
    device = std::min(device, WallOf(kind, recompute_, false));
  }
  const Seconds ends = WallOf(sums_->embedding, MixRecompute::kNone, false) +
                       WallOf(sums_->head, MixRecompute::kNone, false);
  return std::max(layers * least_layer_, time_ratio_ * (layers * device + ends));
}

// A stage has at least one layer, beside which the embedding may be. The share of a sum is never
// above the largest share of its parts.
double StagePrices::FindMostForward() const {
  double most = 0;
  const auto take = [&](Seconds forward, Seconds backward) {
    if (forward + backward > Seconds(0)) most = std::max(most, forward / (forward + backward));
  };
  const LayerPasses<PassSums>& embedding = sums_->embedding;
  for (const LayerPasses<PassSums>& kind : sums_->kinds) {
    take(kind.forward.device, kind.backward.device);
    take(kind.forward.device + embedding.forward.device,
         kind.backward.device + embedding.backward.device);
  }
  take(sums_->head.forward.device, sums_->head.backward.device);
  take(sums_->mtp.forward.device, sums_->mtp.backward.device);
  return most;
}

Seconds StagePrices::LeastTail(int layers) {
  if (has_kinds_) return Seconds(0);
  const auto [entry, is_new] = tails_of_layers_.try_emplace(layers);
  if (is_new) entry->second = PriceOf(StageWith({}, layers, 0), 0).tail;
  return entry->second;
}

Stage StagePrices::StageWith(const PricedPlace& place, int layers, int recomputed) const {
  StagePlan own = own_;
  own.layer_count = layers;
  own.recompute = RecomputeOf(recompute_, recomputed);
  return MakeStage(
      own, {.first_layer = place.first_layer, .is_first = place.is_first, .is_last = place.is_last},
      devices_, model_.caches().units.layers(), model_.problem().model);
}

bool StagePrices::Fits(const Stage& stage, int in_flight) const {
  const MemoryModel& memory = model_.memory();
  const StageMemory modelled = MemoryOf(stage, in_flight, memory.state_bytes(), model_.problem());
  const NodePool& pool = *devices_.pool;
  return memory.Reserved(modelled, pool) <= pool.memory_capacity &&
         !memory.HasFailed(modelled, pool);
}

StagePrice StagePrices::PriceOf(const Stage& stage, int recomputed) const {
  const StageTime modelled = TimeOf(stage, *sums_, pipeline_ > 1);
  const StageTime time = Scaled(modelled, time_ratio_);
  const PipelineShape shape = {.micro_batches = micro_batches_, .stages = pipeline_};
  return {.fits = true,
          .recomputed = recomputed,
          .forward = time.work.forward,
          .backward = time.work.backward,
          .tail = Sum(Scaled(tails_->Of(stage, modelled, shape), time_ratio_))};
}

// Returns the most micro-batches in flight with which a stage fits; more never need less memory.
int StagePrices::MostInFlight(const Stage& stage) const {
  if (Fits(stage, micro_batches_)) return micro_batches_;
  int fits = 0;
  int misses = micro_batches_;
  while (fits + 1 < misses) {
    const int middle = (fits + misses) / 2;
    (Fits(stage, middle) ? fits : misses) = middle;
  }
  return fits;
}

std::uint64_t StagePrices::KeyOf(const PricedPlace& place, int layers) const {
  const auto first = static_cast<std::uint64_t>(has_kinds_ ? place.first_layer : 0);
  const std::uint64_t ends = (place.is_first ? 1U : 0U) + (place.is_last ? 2U : 0U);
  return (first << kSizeBits | static_cast<std::uint64_t>(layers)) << 2U | ends;
}

const StagePrices::Plain& StagePrices::PlainOf(const PricedPlace& place, int layers) {
  const auto [entry, is_new] = plain_.try_emplace(KeyOf(place, layers));
  if (is_new) {
    const Stage stage = StageWith(place, layers, 0);
    entry->second = {.most_in_flight = MostInFlight(stage), .price = PriceOf(stage, 0)};
  }
  return entry->second;
}

// Returns the price with the least number of fully recomputed layers that fits. The first layer
// that recomputes needs room for its working set; from there on more never need more memory.
StagePrice StagePrices::WithLeastRecompute(const PricedPlace& place, int layers) {
  const auto fits = [&](int recomputed) {
    return Fits(StageWith(place, layers, recomputed), place.in_flight);
  };
  if (!fits(layers)) return {};
  int misses = 0;
  int least = layers;
  while (misses + 1 < least) {
    const int middle = (misses + least) / 2;
    (fits(middle) ? least : misses) = middle;
  }
  return PriceOf(StageWith(place, layers, least), least);
}

StagePrice StagePrices::Of(const PricedPlace& place, int layers) {
  const Plain& plain = PlainOf(place, layers);
  if (place.in_flight <= plain.most_in_flight) return plain.price;
  if (recompute_ != MixRecompute::kLeastFull) return {};
  const std::pair key(KeyOf(place, layers), place.in_flight);
  const auto known = recomputing_.find(key);
  if (known != recomputing_.end()) return known->second;
  const StagePrice price = WithLeastRecompute(place, layers);
  recomputing_.emplace(key, price);
  return price;
}

}  // namespace meshwright
