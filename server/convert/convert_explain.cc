#include "server/convert/convert.h"
#include "server/convert/fill_wire.h"
#include "server/tuner/answers/explain.h"
#include "server/tuner/answers/sweep.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

v1::ExplainPlanResponse ToWire(const Explanation& explanation) {
  v1::ExplainPlanResponse wire;
  *wire.mutable_plan() = ToWire(explanation.plan);
  *wire.mutable_best() = ToWire(explanation.best);
  *wire.mutable_launch() = ToWire(explanation.launch);
  if (explanation.recommendation) {
    wire.set_recommendation(std::string(Word(explanation.recommendation->advice)));
    wire.set_reason(explanation.recommendation->reason);
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

v1::SweepResponse ToWire(const Sweep& sweep) {
  v1::SweepResponse wire;
  for (const SweepPoint& point : sweep.points) {
    v1::SweepPoint& out = *wire.add_points();
    out.set_device_count(point.device_count);
    out.set_free_memory_ratio(point.free_memory_ratio);
    if (point.best) *out.mutable_best() = ToWire(*point.best);
    out.set_device_seconds_per_token(point.device_seconds_per_token);
    out.set_is_on_front(point.is_on_front);
  }
  FillAppliedDefaults(sweep.applied_defaults, *wire.mutable_applied_defaults());
  wire.mutable_warnings()->Assign(sweep.warnings.begin(), sweep.warnings.end());
  return wire;
}

std::vector<int> NodeCounts(const v1::SweepRequest& request, const StudyRequest& question) {
  if (request.node_counts_size() > 0) {
    return {request.node_counts().begin(), request.node_counts().end()};
  }
  return {question.question.cluster.pools.front().node_count.value_or(1)};
}

std::vector<double> FreeMemoryRatios(const v1::SweepRequest& request) {
  if (request.free_memory_ratios_size() == 0) return {0};
  return {request.free_memory_ratios().begin(), request.free_memory_ratios().end()};
}

}  // namespace meshwright
