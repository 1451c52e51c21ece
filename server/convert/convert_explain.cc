#include "server/convert/convert.h"
#include "server/convert/fill_wire.h"
#include "server/tuner/answers/explain.h"
#include "server/tuner/question/heterogeneous.h"

namespace meshwright {

void FillHeterogeneous(const Heterogeneous& answer, v1::Heterogeneous& wire) {
  for (const auto& [pool, tokens] : answer.tokens_per_second_by_pool) {
    (*wire.mutable_tokens_per_second_by_pool())[pool] = tokens;
  }
  wire.set_lower_bound_tokens_per_second(answer.lower_bound_tokens_per_second);
  wire.set_upper_bound_tokens_per_second(answer.upper_bound_tokens_per_second);
  wire.set_efficiency_ratio(answer.efficiency_ratio);
  wire.set_gain_ratio(answer.gain_ratio);
  wire.set_mix_verdict(std::string(Word(answer.verdict)));
  wire.set_reason(answer.reason);
  if (answer.gain_low_ratio) wire.set_gain_low_ratio(*answer.gain_low_ratio);
  if (answer.bottleneck) {
    v1::MixBottleneck& bottleneck = *wire.mutable_bottleneck();
    bottleneck.set_pool(answer.bottleneck->pool);
    bottleneck.set_stage(answer.bottleneck->stage);
    bottleneck.set_cause(answer.bottleneck->cause);
  }
  for (const PoolSetPlan& best : answer.best_by_pool_set) {
    v1::PoolSetPlan& out = *wire.add_best_by_pool_set();
    out.mutable_pools()->Assign(best.pools.begin(), best.pools.end());
    out.set_tokens_per_second(best.tokens_per_second);
    *out.mutable_plan() = ToWire(best.plan);
  }
  for (const MixGeneration& generation : answer.generations) {
    v1::MixGeneration& out = *wire.add_generations();
    out.set_name(generation.name);
    out.set_tokens_per_second(generation.tokens_per_second);
    out.set_efficiency_ratio(generation.efficiency_ratio);
  }
}

v1::ExplainPlanResponse ToWire(const Explanation& explanation) {
  v1::ExplainPlanResponse wire;
  *wire.mutable_plan() = ToWire(explanation.plan);
  *wire.mutable_best() = ToWire(explanation.best);
  *wire.mutable_launch() = ToWire(explanation.launch);
  if (explanation.recommendation) {
    wire.set_recommendation(std::string(Word(explanation.recommendation->advice)));
    wire.set_reason(explanation.recommendation->reason);
    FillReasons(explanation.recommendation->facts, *wire.mutable_reasons());
  }
  wire.set_binding_resource(explanation.binding);
  for (const Sensitivity& sensitivity : explanation.sensitivities) {
    v1::Sensitivity& out = *wire.add_sensitivities();
    out.set_resource(std::string(sensitivity.resource));
    out.set_change_ratio(sensitivity.change);
    out.set_plan_step_time_seconds(sensitivity.same.estimate.step_time.count());
    out.set_plan_fits(sensitivity.same.estimate.fits);
    if (sensitivity.best) *out.mutable_best() = ToWire(*sensitivity.best);
  }
  for (const NearMiss& miss : explanation.near_misses) {
    v1::NearMiss& out = *wire.add_near_misses();
    *out.mutable_plan() = ToWire(miss.plan);
    out.set_reason(miss.reason);
  }
  FillAppliedDefaults(explanation.applied_defaults, *wire.mutable_applied_defaults());
  wire.mutable_warnings()->Assign(explanation.warnings.begin(), explanation.warnings.end());
  if (explanation.calibration) *wire.mutable_calibration() = ToWire(*explanation.calibration);
  wire.mutable_cost_model_lines()->Assign(explanation.model_lines.begin(),
                                          explanation.model_lines.end());
  return wire;
}

}  // namespace meshwright
