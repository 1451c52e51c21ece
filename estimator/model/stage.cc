#include "estimator/model/stage.h"

#include <algorithm>
#include <cstddef>

#include "estimator/layer/layer_cost.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

// Adds up the passes without recomputation.
template <typename Pass>
StagePasses<Pass> PlainPasses(const Stage& s, const UnitPasses<Pass>& unit) {
  StagePasses<Pass> passes;
  const auto add = [&](const LayerPasses<Pass>& layer, int count) {
    AddScaled(passes.forward, layer.forward, count);
    AddScaled(passes.backward, layer.backward, count);
  };
  for (std::size_t i = 0; i < unit.kinds.size(); ++i) add(unit.kinds[i], s.layers[i]);
  add(unit.mtp, s.mtp_layers);
  add(unit.embedding, s.has_embedding ? 1 : 0);
  add(unit.head, s.has_head ? 1 : 0);
  return passes;
}

template <typename Pass>
void AddRecompute(const Stage& s, const UnitPasses<Pass>& unit, Pass& backward) {
  if (s.recomputed_layers + s.selective_layers + s.selective_mtp_layers == 0) return;
  const RecomputedKinds layers = RecomputedKindsOf(s);
  for (std::size_t i = 0; i < unit.kinds.size(); ++i) {
    AddScaled(backward, unit.kinds[i].full, layers.full[i]);
  }
  for (std::size_t i = 0; i < unit.kinds.size(); ++i) {
    AddScaled(backward, unit.kinds[i].selective, layers.selective[i]);
  }
  AddScaled(backward, unit.mtp.selective, s.selective_mtp_layers);
}

// Copies to the host run beside the forward pass, those back beside the backward pass; what is
// longer than its pass is exposed (docs/cost_model/data_parallel.md "Host").
void AddActivationOffload(const Stage& s, StageTime& time) {
  if (s.offloaded_layers == 0) return;
  const Seconds copy = OffloadedBytes(s) / s.devices->pool->chip.host_link;
  time.forward_copies = std::max(Seconds(0), copy - time.work.forward);
  time.backward_copies = std::max(Seconds(0), copy - time.work.backward);
  time.work.forward += time.forward_copies;
  time.work.backward += time.backward_copies;
  time.wall += time.forward_copies;
  time.wall += time.backward_copies;
}

}  // namespace

LayerCounts FirstLayers(const Stage& s, int count) {
  LayerCounts first = {};
  if (s.order != nullptr) {
    first = s.order->Count(s.first_layer, count);
    for (const int of_kind : first) count -= of_kind;
  }
  for (std::size_t i = 0; i < kMaxLayerKinds && count > 0; ++i) {
    const int more = std::min(count, s.layers[i] - first[i]);
    first[i] += more;
    count -= more;
  }
  return first;
}

RecomputedKinds RecomputedKindsOf(const Stage& s) {
  RecomputedKinds kinds = {.full = FirstLayers(s, s.recomputed_layers),
                           .selective = FirstLayers(s, s.recomputed_layers + s.selective_layers)};
  for (std::size_t i = 0; i < kMaxLayerKinds; ++i) kinds.selective[i] -= kinds.full[i];
  return kinds;
}

StageTime TimeOf(const Stage& s, const UnitSums& unit, bool is_pipelined) {
  auto [forward, backward] = PlainPasses(s, unit);
  StageTime time;
  const Seconds plain_device = forward.device + backward.device;
  const Seconds plain_wall = DeviceWithHost(plain_device, forward.host + backward.host);
  if (plain_device.count() > 0) {
    time.forward_window = forward.device / plain_device * plain_wall;
    time.backward_window = backward.device / plain_device * plain_wall;
  }
  AddRecompute(s, unit, backward);
  time.forward_network = forward.network;
  time.backward_network = backward.network;
  const Seconds device = forward.device + backward.device;
  time.wall = DeviceWithHost(device, forward.host + backward.host);
  if (!is_pipelined) time.backward_window += time.wall - plain_wall;
  if (device.count() > 0) {
    time.work = {.forward = forward.device / device * time.wall,
                 .backward = backward.device / device * time.wall,
                 .weight_gradient = backward.weight_gradient / device * time.wall};
  }
  AddActivationOffload(s, time);
  return time;
}

StagePasses<PassTime> PassesOf(const Stage& s, const UnitTimes& unit, const StageTime& time) {
  StagePasses<PassTime> passes = PlainPasses(s, unit);
  AddRecompute(s, unit, passes.backward);
  const auto add_copies = [](Seconds copies, PassTime& pass) {
    pass.by_cause[static_cast<std::size_t>(TimeCause::kActivationOffload)] += copies;
    pass.device += copies;
  };
  add_copies(time.forward_copies, passes.forward);
  add_copies(time.backward_copies, passes.backward);
  return passes;
}

StageTime Scaled(const StageTime& time, double ratio) {
  return {.wall = ratio * time.wall,
          .work = {.forward = ratio * time.work.forward,
                   .backward = ratio * time.work.backward,
                   .weight_gradient = ratio * time.work.weight_gradient},
          .forward_copies = ratio * time.forward_copies,
          .backward_copies = ratio * time.backward_copies,
          .forward_window = ratio * time.forward_window,
          .backward_window = ratio * time.backward_window,
          .forward_network = ratio * time.forward_network,
          .backward_network = ratio * time.backward_network};
}

StagePasses<PassTime> Scaled(const StagePasses<PassTime>& passes, double ratio) {
  StagePasses<PassTime> scaled;
  AddScaled(scaled.forward, passes.forward, ratio);
  AddScaled(scaled.backward, passes.backward, ratio);
  return scaled;
}

StagePasses<PassTime> Mean(const StagePasses<PassTime>& a, const StagePasses<PassTime>& b) {
  StagePasses<PassTime> mean;
  for (const StagePasses<PassTime>* part : {&a, &b}) {
    AddScaled(mean.forward, part->forward, 0.5);
    AddScaled(mean.backward, part->backward, 0.5);
  }
  return mean;
}

StageParameters WholeParametersOf(const Stage& s) {
  const LayerCounts whole = FirstLayers(s, s.whole_layers);
  StageParameters p;
  const auto& kinds = s.devices->unit->kinds;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    p.dense += whole[i] * kinds[i].parameters;
    p.expert += whole[i] * kinds[i].expert_parameters;
  }
  return p;
}

Bytes OffloadedBytes(const Stage& s) {
  const LayerCounts offloaded = FirstLayers(s, s.offloaded_layers);
  Bytes bytes = {};
  const auto& kinds = s.devices->unit->kinds;
  for (std::size_t i = 0; i < kinds.size(); ++i) bytes += kinds[i].store.all * offloaded[i];
  return bytes;
}

StageParameters ParametersOf(const Stage& s, const ModelSpec& model) {
  const UnitCosts& unit = *s.devices->unit;
  StageParameters p;
  for (std::size_t i = 0; i < unit.kinds.size(); ++i) {
    p.dense += s.layers[i] * unit.kinds[i].parameters;
    p.expert += s.layers[i] * unit.kinds[i].expert_parameters;
  }
  p.dense += s.mtp_layers * unit.mtp_parameters;
  p.expert += s.mtp_layers * unit.mtp_expert_parameters;
  if (s.has_embedding) p.vocabulary += unit.vocabulary_parameters;
  // A tied output layer shares the embedding's matrix when both are on this stage, else holds a
  // copy.
  if (s.has_head && !(model.tied_embeddings && s.has_embedding)) {
    p.vocabulary += unit.vocabulary_parameters;
  }
  p.dense += p.vocabulary;
  return p;
}

}  // namespace meshwright
