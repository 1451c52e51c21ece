#include "estimator/layer/unit_costs.h"

#include <cstddef>
#include <optional>

#include "estimator/layer/layer_program.h"
#include "estimator/layer/parameters.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/layer_parameters.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

// An MTP layer is of the last layer's kind.
const LayerKind& MtpKind(const LayerContext& c, const LayerList& layers) {
  return layers.KindAt(c.model.layer_count - 1);
}

LayerProgram BuildMtp(const LayerContext& c, const LayerList& layers) {
  LayerProgram program = BuildLayer(c, MtpKind(c, layers));
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

KindCosts CountParameters(const LayerContext& c, const LayerKind& kind) {
  const LayerSharding& s = c.sharding;
  const LayerParameters layer = ParametersOf(c.model, kind);
  return {.parameters = DenseParameters(layer, s.tensor_parallel),
          .expert_parameters = ExpertParameters(layer, s.expert_parallel, s.expert_tensor_parallel),
          .distinct_elements = DistinctMatrixElements(c.model, kind, s.tensor_parallel)};
}

void FillParameters(const LayerContext& c, const LayerList& layers, UnitCosts& unit) {
  for (const LayerKind& kind : layers.kinds()) unit.kinds.push_back(CountParameters(c, kind));
  const double t = c.sharding.tensor_parallel;
  const double h = c.model.hidden_size;
  unit.vocabulary_parameters = PaddedVocabulary(c.model, c.sharding.tensor_parallel) * h / t;
  if (c.model.mtp_layer_count == 0) return;
  const KindCosts mtp = CountParameters(c, MtpKind(c, layers));
  unit.mtp_parameters = mtp.parameters + 2 * h * h / t;
  unit.mtp_expert_parameters = mtp.expert_parameters;
}

// Returns the transient of a layer by formula 4 in docs/cost_model/memory.md: gradients of a block
// beside its activations.
Bytes TransientOf(const LayerContext& c, const LayerKind& kind) {
  const double n = TokensPerRank(c);
  const double t = c.sharding.tensor_parallel;
  const double h = c.model.hidden_size;
  const double up = IsGated(c.model.mlp) ? 6 : 4;
  if (kind.feed_forward != FeedForwardKind::kExperts) {
    return RoundedBytes(n * (2 * h + up * kind.ffn_hidden_size / t));
  }
  const MoeSpec& moe = *c.model.moe;
  const double routed = n / t * moe.experts_per_token * BusiestRank(c);
  return RoundedBytes(routed * (2 * h + up * static_cast<double>(moe.expert_ffn_hidden_size)));
}

void FillHeadTransients(const LayerContext& c, UnitCosts& unit) {
  const double n = TokensPerRank(c);
  const double t = c.sharding.tensor_parallel;
  const double h = c.model.hidden_size;
  const bool fused = c.workload.cross_entropy_kernel == KernelFusion::kFused;
  // A soft cap keeps the 16-bit tangent of each logit.
  const double capped = c.model.output_soft_cap.has_value() ? 2 : 0;
  const double per_logit =
      capped + (fused ? c.profile.logit_stored_bytes_fused : c.profile.logit_stored_bytes_unfused);
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
UnitTimes PriceAll(const LayerContext& c, const LayerList& layers, const LayerSite& site,
                   const Price& price) {
  UnitTimes times;
  for (const LayerKind& kind : layers.kinds()) times.kinds.push_back(price(BuildLayer(c, kind)));
  if (c.model.mtp_layer_count > 0) times.mtp = price(BuildMtp(c, layers));
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
  return {.device = pass.device,
          .host = pass.host,
          .weight_gradient = pass.weight_gradient,
          .network = pass.network};
}

LayerPasses<PassSums> SumsOf(const LayerTime& layer) {
  return {.forward = SumsOf(layer.forward),
          .backward = SumsOf(layer.backward),
          .selective = SumsOf(layer.selective),
          .full = SumsOf(layer.full)};
}

}  // namespace

UnitSums SumsOf(const UnitTimes& times) {
  UnitSums sums = {
      .mtp = SumsOf(times.mtp), .embedding = SumsOf(times.embedding), .head = SumsOf(times.head)};
  for (const LayerTime& kind : times.kinds) sums.kinds.push_back(SumsOf(kind));
  return sums;
}

UnitCosts MeasureParameters(const LayerContext& c, const LayerList& layers) {
  UnitCosts unit;
  FillParameters(c, layers, unit);
  unit.boundary = LayerInputBytes(c);
  return unit;
}

UnitCosts MeasureUnits(const LayerContext& c, const LayerList& layers, ModuleSet selective) {
  UnitCosts unit = MeasureParameters(c, layers);
  unit.selective = selective;
  for (std::size_t i = 0; i < unit.kinds.size(); ++i) {
    unit.kinds[i].store = StoreOf(BuildLayer(c, layers.kinds()[i]), c, selective);
    unit.kinds[i].transient = TransientOf(c, layers.kinds()[i]);
  }
  if (c.model.mtp_layer_count > 0) unit.mtp = StoreOf(BuildMtp(c, layers), c, selective);
  FillHeadTransients(c, unit);
  return unit;
}

UnitTimes PriceUnits(const LayerContext& c, const LayerList& layers, const LayerSite& site,
                     ModuleSet selective) {
  return PriceAll(c, layers, site, [&](const LayerProgram& layer) {
    return PriceProgram(layer, c, site, selective, std::nullopt);
  });
}

UnitTimes PriceUnitsWithBestExperts(const LayerContext& c, const LayerList& layers,
                                    const LayerSite& site) {
  return PriceAll(c, layers, site,
                  [&](const LayerProgram& layer) { return PriceWithBestExperts(layer, c, site); });
}

}  // namespace meshwright
