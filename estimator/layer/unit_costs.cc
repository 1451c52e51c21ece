#include "estimator/layer/unit_costs.h"

#include <algorithm>

#include "estimator/layer/layer_program.h"
#include "estimator/layer/parameters.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

LayerProgram BuildMtp(const LayerContext& c) {
  LayerProgram program = BuildLayer(c, c.model.moe.has_value());
  const double n = TokensPerRank(c);
  const double h = c.model.hidden_size;
  // It joins the hidden state with the next token's embedding (DeepSeek-V3, arXiv 2412.19437, 2.2).
  program.kernels.push_back(Matmul(
      "mtp projection", {.m = n, .n = h / c.sharding.tensor_parallel, .k = 2 * h}, 4 * n * h, 0));
  const LayerProgram head = BuildHead(c);
  program.kernels.insert(program.kernels.end(), head.kernels.begin(), head.kernels.end());
  program.collectives.insert(program.collectives.end(), head.collectives.begin(),
                             head.collectives.end());
  return program;
}

void FillParameters(const LayerContext& c, UnitCosts& unit) {
  const LayerSharding& s = c.sharding;
  const LayerParameters dense = ParametersOf(c.model, false);
  unit.dense_layer_parameters = DenseParameters(dense, s.tensor_parallel);
  unit.distinct_dense_elements = DistinctMatrixElements(c.model, false, s.tensor_parallel);
  if (c.model.moe.has_value()) {
    const LayerParameters moe = ParametersOf(c.model, true);
    unit.moe_layer_parameters = DenseParameters(moe, s.tensor_parallel);
    unit.expert_parameters = ExpertParameters(moe, s.expert_parallel, s.expert_tensor_parallel);
    unit.distinct_moe_elements = DistinctMatrixElements(c.model, true, s.tensor_parallel);
  }
  const double h = c.model.hidden_size;
  unit.vocabulary_parameters = PaddedVocabulary(c.model, s.tensor_parallel) * h / s.tensor_parallel;
  unit.mtp_parameters = 2 * h * h / s.tensor_parallel;
}

// Fills in the transients of formula 4 in docs/cost_model/memory.md: gradients of a block beside
// its activations.
void FillTransients(const LayerContext& c, UnitCosts& unit) {
  const double n = TokensPerRank(c);
  const double t = c.sharding.tensor_parallel;
  const double h = c.model.hidden_size;
  const double up = c.model.mlp == MlpKind::kGelu ? 4 : 6;
  unit.layer_transient = RoundedBytes(n * (2 * h + up * c.model.ffn_hidden_size / t));
  if (c.model.moe.has_value()) {
    const MoeSpec& moe = *c.model.moe;
    const double routed = n / t * moe.experts_per_token * moe.imbalance_ratio;
    unit.moe_transient =
        RoundedBytes(routed * (2 * h + up * static_cast<double>(moe.expert_ffn_hidden_size)));
  }
  const bool fused = c.workload.cross_entropy_kernel == KernelFusion::kFused;
  const double per_logit =
      fused ? c.profile.logit_stored_bytes_fused : c.profile.logit_stored_bytes_unfused;
  const double logits = PaddedVocabulary(c.model, c.sharding.tensor_parallel) /
                        (c.profile.logits_are_gathered ? 1 : t);
  unit.old_logits = RoundedBytes(n * logits * c.profile.logit_bytes_between_micro_batches);
  const double sharded = c.sharding.sequence_parallel ? t : 1;
  // The final norm's input and output, logits, the gathered input of the output layer and its
  // gradient.
  unit.head_transient =
      RoundedBytes(n * (4 * h / sharded + per_logit * logits + (t > 1 ? 2 * h : 0) + 2 * h));
}

// `price` prices a layer; the vocabulary's programs are always priced alike.
template <typename Price>
UnitTimes PriceAll(const LayerContext& c, const LayerSite& site, const Price& price) {
  UnitTimes times;
  times.dense = price(BuildLayer(c, false));
  if (c.model.moe.has_value()) times.moe = price(BuildLayer(c, true));
  if (c.model.mtp_layer_count > 0) times.mtp = price(BuildMtp(c));
  times.embedding = PriceProgram(BuildEmbedding(c), c, site, 0, TimeCause::kVocabulary);
  times.head = PriceProgram(BuildHead(c), c, site, 0, TimeCause::kVocabulary);
  return times;
}

LayerTime PriceWithBestExperts(const LayerProgram& program, const LayerContext& c,
                               const LayerSite& site) {
  LayerTime time = PriceProgram(WithoutExperts(program), c, site, 0, std::nullopt);
  // The backward pass has two products for each of the forward pass.
  const Seconds least = 3 * site.matmuls.Least(ExpertFlops(program));
  time.backward.by_cause[static_cast<std::size_t>(TimeCause::kMatmul)] += least;
  time.backward.device += least;
  return time;
}

PassSums SumsOf(const PassTime& pass) {
  return {.device = pass.device, .host = pass.host, .weight_gradient = pass.weight_gradient};
}

LayerPasses<PassSums> SumsOf(const LayerTime& layer) {
  return {.forward = SumsOf(layer.forward),
          .backward = SumsOf(layer.backward),
          .selective = SumsOf(layer.selective),
          .full = SumsOf(layer.full)};
}

}  // namespace

UnitSums SumsOf(const UnitTimes& times) {
  return {.dense = SumsOf(times.dense),
          .moe = SumsOf(times.moe),
          .mtp = SumsOf(times.mtp),
          .embedding = SumsOf(times.embedding),
          .head = SumsOf(times.head)};
}

UnitCosts MeasureParameters(const LayerContext& c) {
  UnitCosts unit;
  FillParameters(c, unit);
  unit.boundary = LayerInputBytes(c);
  return unit;
}

UnitCosts MeasureUnits(const LayerContext& c, ModuleSet selective) {
  UnitCosts unit = MeasureParameters(c);
  unit.selective = selective;
  unit.dense = StoreOf(BuildLayer(c, false), c, selective);
  if (c.model.moe.has_value()) unit.moe = StoreOf(BuildLayer(c, true), c, selective);
  if (c.model.mtp_layer_count > 0) unit.mtp = StoreOf(BuildMtp(c), c, selective);
  FillTransients(c, unit);
  return unit;
}

UnitTimes PriceUnits(const LayerContext& c, const LayerSite& site, ModuleSet selective) {
  return PriceAll(c, site, [&](const LayerProgram& layer) {
    return PriceProgram(layer, c, site, selective, std::nullopt);
  });
}

UnitTimes PriceUnitsWithBestExperts(const LayerContext& c, const LayerSite& site) {
  return PriceAll(c, site,
                  [&](const LayerProgram& layer) { return PriceWithBestExperts(layer, c, site); });
}

}  // namespace meshwright
