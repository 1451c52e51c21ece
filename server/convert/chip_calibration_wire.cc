#include "server/convert/chip_calibration_wire.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "estimator/fit/measured.h"
#include "search_space/spec/choices.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"
#include "server/tuner/chip_calibration/chip_calibration.h"
#include "server/tuner/chip_calibration/chip_draft.h"

namespace meshwright {
namespace {

const char* VerdictWord(OperatorVerdict verdict) {
  switch (verdict) {
    case OperatorVerdict::kGood:
      return "good";
    case OperatorVerdict::kTooFew:
      return "too_few";
    case OperatorVerdict::kPoor:
      return "poor";
    case OperatorVerdict::kMeasured:
      return "measured";
    case OperatorVerdict::kAssumed:
      return "assumed";
  }
  std::abort();
}

void Fill(const FitError& from, v1::FitError& to) {
  to.set_median_ratio(from.median_ratio);
  to.set_p90_ratio(from.p90_ratio);
  to.set_point_count(from.point_count);
}

}  // namespace

v1::ChipCalibration ToWire(const ChipCalibration& calibration) {
  v1::ChipCalibration wire;
  wire.set_name(calibration.name);
  wire.set_chip(calibration.entry.spec.id);
  wire.set_device_name(calibration.device_name);
  for (std::string& reason : WhyNotReady(calibration)) wire.add_reasons(std::move(reason));
  wire.set_verdict(wire.reasons().empty() ? "ready" : "not_ready");
  for (const OperatorFit& from : calibration.operators) {
    v1::OperatorFit& to = *wire.add_operators();
    to.set_name(from.name);
    to.set_detail(from.detail);
    to.set_point_count(from.point_count);
    Fill(from.before, *to.mutable_before());
    Fill(from.held_out, *to.mutable_held_out());
    to.set_limit_ratio(from.limit_ratio);
    to.set_p90_limit_ratio(kP90OverMedianLimit * from.limit_ratio);
    to.set_is_needed(from.is_needed);
    to.set_verdict(VerdictWord(from.verdict));
    to.set_advice(from.advice);
  }
  for (const FigureChange& from : calibration.changes) {
    v1::FigureChange& to = *wire.add_changes();
    to.set_name(from.name);
    to.set_before(from.before);
    to.set_after(from.after);
    to.set_provenance(std::string(Word(from.provenance)));
  }
  for (const std::string& warning : calibration.warnings) wire.add_warnings(warning);
  return wire;
}

}  // namespace meshwright
