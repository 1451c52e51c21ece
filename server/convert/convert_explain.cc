#include "server/convert/convert.h"
#include "server/convert/fill_wire.h"
#include "server/tuner/answers/explain.h"

namespace meshwright {

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
