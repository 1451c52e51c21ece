#include "estimator/stage.h"

#include <algorithm>

#include "estimator/host_link.h"

namespace meshwright {
namespace {

void AddRecompute(const Stage& s, PassTime& backward) {
  if (s.recomputed_layers + s.selective_layers + s.selective_mtp_layers == 0) return;
  const UnitTimes& unit = *s.unit->times;
  const RecomputedKinds layers = RecomputedKindsOf(s);
  AddScaled(backward, unit.dense.full, layers.full_dense);
  AddScaled(backward, unit.moe.full, layers.full_moe);
  AddScaled(backward, unit.dense.selective, layers.selective_dense);
  AddScaled(backward, unit.moe.selective, layers.selective_moe);
  AddScaled(backward, unit.mtp.selective, s.selective_mtp_layers);
}

// Copies to the host run beside the forward pass, those back beside the backward pass; what is
// longer than its pass is exposed (docs/cost_model.md "Host link").
void AddActivationOffload(const Stage& s, StageTime& time) {
  if (s.offloaded_layers == 0) return;
  constexpr auto kLine = static_cast<std::size_t>(TimeCause::kActivationOffload);
  const Seconds copy = OffloadedBytes(s) / kHostLink;
  const auto expose = [&](Seconds& work, PassTime& pass) {
    const Seconds exposed = std::max(Seconds(0), copy - work);
    work += exposed;
    pass.by_cause[kLine] += exposed;
    pass.device += exposed;
    time.wall += exposed;
  };
  expose(time.work.forward, time.forward);
  expose(time.work.backward, time.backward);
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

StageTime Mean(const StageTime& a, const StageTime& b) {
  StageTime mean;
  for (const StageTime* part : {&a, &b}) {
    AddScaled(mean.forward, part->forward, 0.5);
    AddScaled(mean.backward, part->backward, 0.5);
    mean.wall += part->wall / 2;
  }
  return mean;
}

StageTime TimeOf(const Stage& s, bool is_pipelined) {
  const UnitTimes& unit = *s.unit->times;
  StageTime time;
  AddScaled(time.forward, unit.dense.forward, s.dense_layers);
  AddScaled(time.forward, unit.moe.forward, s.moe_layers);
  AddScaled(time.forward, unit.mtp.forward, s.mtp_layers);
  AddScaled(time.backward, unit.dense.backward, s.dense_layers);
  AddScaled(time.backward, unit.moe.backward, s.moe_layers);
  AddScaled(time.backward, unit.mtp.backward, s.mtp_layers);
  if (s.has_embedding) {
    AddScaled(time.forward, unit.embedding.forward, 1);
    AddScaled(time.backward, unit.embedding.backward, 1);
  }
  if (s.has_head) {
    AddScaled(time.forward, unit.head.forward, 1);
    AddScaled(time.backward, unit.head.backward, 1);
  }
  const Seconds plain_device = time.forward.device + time.backward.device;
  const Seconds plain_wall = DeviceWithHost(plain_device, time.forward.host + time.backward.host);
  if (plain_device.count() > 0) {
    time.forward_window = time.forward.device / plain_device * plain_wall;
    time.backward_window = time.backward.device / plain_device * plain_wall;
  }
  AddRecompute(s, time.backward);
  time.wall = DeviceWithHost(time.forward.device + time.backward.device,
                             time.forward.host + time.backward.host);
  if (!is_pipelined) time.backward_window += time.wall - plain_wall;
  const Seconds device = time.forward.device + time.backward.device;
  if (device.count() > 0) {
    time.work = {.forward = time.forward.device / device * time.wall,
                 .backward = time.backward.device / device * time.wall,
                 .weight_gradient = time.backward.weight_gradient / device * time.wall};
  }
  AddActivationOffload(s, time);
  return time;
}

StageParameters WholeParametersOf(const Stage& s) {
  const int dense = std::min(s.whole_layers, s.dense_layers);
  const int moe = s.whole_layers - dense;
  return {.dense = dense * s.unit->dense_layer_parameters + moe * s.unit->moe_layer_parameters,
          .expert = moe * s.unit->expert_parameters};
}

Bytes OffloadedBytes(const Stage& s) {
  const int dense = std::min(s.offloaded_layers, s.dense_layers);
  return s.unit->dense.all * dense + s.unit->moe.all * (s.offloaded_layers - dense);
}

StageParameters ParametersOf(const Stage& s, const ModelSpec& model) {
  const UnitCosts& unit = *s.unit;
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
