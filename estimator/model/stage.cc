#include "estimator/model/stage.h"

#include <algorithm>

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
  add(unit.dense, s.dense_layers);
  add(unit.moe, s.moe_layers);
  add(unit.mtp, s.mtp_layers);
  add(unit.embedding, s.has_embedding ? 1 : 0);
  add(unit.head, s.has_head ? 1 : 0);
  return passes;
}

template <typename Pass>
void AddRecompute(const Stage& s, const UnitPasses<Pass>& unit, Pass& backward) {
  if (s.recomputed_layers + s.selective_layers + s.selective_mtp_layers == 0) return;
  const RecomputedKinds layers = RecomputedKindsOf(s);
  AddScaled(backward, unit.dense.full, layers.full_dense);
  AddScaled(backward, unit.moe.full, layers.full_moe);
  AddScaled(backward, unit.dense.selective, layers.selective_dense);
  AddScaled(backward, unit.moe.selective, layers.selective_moe);
  AddScaled(backward, unit.mtp.selective, s.selective_mtp_layers);
}

// Copies to the host run beside the forward pass, those back beside the backward pass; what is
// longer than its pass is exposed (docs/cost_model/data_parallel.md "Host link").
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

RecomputedKinds RecomputedKindsOf(const Stage& s) {
  const int full_dense = std::min(s.recomputed_layers, s.dense_layers);
  const int selective_dense = std::min(s.selective_layers, s.dense_layers - full_dense);
  return {.full_dense = full_dense,
          .full_moe = s.recomputed_layers - full_dense,
          .selective_dense = selective_dense,
          .selective_moe = s.selective_layers - selective_dense};
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

StagePasses<PassTime> Mean(const StagePasses<PassTime>& a, const StagePasses<PassTime>& b) {
  StagePasses<PassTime> mean;
  for (const StagePasses<PassTime>* part : {&a, &b}) {
    AddScaled(mean.forward, part->forward, 0.5);
    AddScaled(mean.backward, part->backward, 0.5);
  }
  return mean;
}

StageParameters WholeParametersOf(const Stage& s) {
  const int dense = std::min(s.whole_layers, s.dense_layers);
  const int moe = s.whole_layers - dense;
  return {.dense = dense * s.devices->unit->dense_layer_parameters +
                   moe * s.devices->unit->moe_layer_parameters,
          .expert = moe * s.devices->unit->expert_parameters};
}

Bytes OffloadedBytes(const Stage& s) {
  const int dense = std::min(s.offloaded_layers, s.dense_layers);
  return s.devices->unit->dense.all * dense +
         s.devices->unit->moe.all * (s.offloaded_layers - dense);
}

StageParameters ParametersOf(const Stage& s, const ModelSpec& model) {
  const UnitCosts& unit = *s.devices->unit;
  const bool mtp_has_experts = model.moe.has_value();
  StageParameters p;
  p.dense =
      s.dense_layers * unit.dense_layer_parameters + s.moe_layers * unit.moe_layer_parameters +
      s.mtp_layers * ((mtp_has_experts ? unit.moe_layer_parameters : unit.dense_layer_parameters) +
                      unit.mtp_parameters);
  p.expert = (s.moe_layers + (mtp_has_experts ? s.mtp_layers : 0)) * unit.expert_parameters;
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
