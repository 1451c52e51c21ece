// Checks of what a model may declare to lack: bounds, explanations and calibration.

#include <fmt/format.h>

#include <limits>
#include <set>

#include "search_space/spec/chip.h"
#include "search_space/spec/plan.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/conformance/conformance_session.h"
#include "server/plugins/wire/calibration.h"
#include "server/plugins/wire/model_stub.h"
#include "server/plugins/wire/question_wire.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;
using Stub = ConformanceSession::Stub;

constexpr std::size_t kOptionalPlans = 32;
constexpr std::size_t kBoundedPlans = 200;
constexpr double kReached = 0.5;  // share of the nominal rates in made-up measurements

bool IsRefused(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
         absl::IsUnimplemented(status) || absl::IsOutOfRange(status);
}

// Compares estimates with bounds in an open context.
Finding CompareWithBounds(ConformanceSession& session, std::int64_t context) {
  const std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), kBoundedPlans);
  const auto figures = session.Ask(context, plans);
  if (!figures.ok()) return Failed("EstimateBatch", figures.status());
  wire::LowerBoundRequest request;
  request.set_context(context);
  *request.mutable_candidates() = ToCandidates(plans, session.problem());
  const auto bounds =
      CallModel<wire::LowerBoundResponse>(session.stub(), &Stub::LowerBound, request, {});
  if (!bounds.ok()) return Failed("LowerBound", bounds.status());
  if (static_cast<std::size_t>(bounds->step_time_seconds_size()) != plans.size()) {
    return Failed("LowerBound does not have one entry for each candidate");
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const double bound = bounds->step_time_seconds(static_cast<int>(i));
    const bool is_bound =
        (*figures)[i].verdict != PlanVerdict::kOk || bound <= (*figures)[i].step_time.count();
    if (!is_bound)
      return Failed(MakePlanKey(plans[i]).text + " is estimated below its lower bound");
  }
  return Passed();
}

Finding CheckLowerBound(ConformanceSession& session) {
  if (!session.info().has_lower_bound) return Skipped("it has no LowerBound");
  const auto context = session.Open(session.problem());
  if (!context.ok()) return Failed("OpenContext", context.status());
  return CompareWithBounds(session, *context);
}

Finding CheckExplain(ConformanceSession& session) {
  if (!session.info().has_explain) return Skipped("it has no Explain");
  const auto context = session.Open(session.problem());
  if (!context.ok()) return Failed("OpenContext", context.status());
  wire::ExplainRequest request;
  request.set_context(*context);
  *request.mutable_candidate() =
      ToCandidates(ConformancePlans(session.problem(), 1), session.problem());
  const auto explain = [&] {
    return CallModel<wire::ExplainResponse>(session.stub(), &Stub::Explain, request, {});
  };
  const auto said = explain();
  if (!said.ok()) return Failed("Explain", said.status());
  if (said->lines().empty()) return Failed("Explain has no lines");
  *request.mutable_candidate() =
      ToCandidates(ConformancePlans(session.problem(), 2), session.problem());
  if (explain().ok()) return Failed("Explain of two candidates is answered");
  return Passed(fmt::format("{} lines", said->lines_size()));
}

// Returns what is wrong with the tests; empty if nothing is.
std::string WhyBad(const wire::ListCalibrationTestsResponse& tests) {
  if (tests.tests().empty()) return "ListCalibrationTests lists none";
  std::set<std::string> names;
  for (const wire::CalibrationTest& test : tests.tests()) {
    if (test.name().empty() || test.unit().empty()) return "a test has no name or no unit";
    if (!names.insert(test.name()).second) return "two tests are called " + test.name();
  }
  return "";
}

// Makes up a measurement: half of what the chip's data sheet says, in the test's unit.
double MadeUp(const wire::CalibrationTest& test, const Problem& problem) {
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  if (test.unit() == "bytes_per_second") return kReached * chip.memory_bandwidth.rate;
  if (test.unit() == "flops_per_second") {
    const auto peak = chip.peak.find(problem.workload.precision);
    return peak == chip.peak.end() ? 1 : kReached * peak->second.rate;
  }
  return test.unit() == "seconds" ? 1e-3 : kReached;
}

// With the parameters the model must answer within its bounds; garbage it must refuse, and survive.
Finding CheckParameters(ConformanceSession& session, const std::string& parameters) {
  wire::OpenContextRequest request = ToContext(session.problem());
  request.set_calibration(parameters);
  const auto context = session.Open(request);
  if (!context.ok()) return Failed("OpenContext with the fitted parameters", context.status());
  const auto answers = session.Ask(*context, ConformancePlans(session.problem(), kOptionalPlans));
  if (!answers.ok()) return Failed("EstimateBatch with the fitted parameters", answers.status());
  if (session.info().has_lower_bound) {
    const Finding bounds = CompareWithBounds(session, *context);
    if (bounds.outcome != CheckOutcome::kPassed) {
      return Failed("with the fitted parameters: " + bounds.detail);
    }
  }
  for (const std::string& garbage : {std::string("conformance garbage"), std::string(4, '\0')}) {
    request.set_calibration(garbage);
    const auto opened = session.Open(request);
    if (opened.ok()) return Failed("parameters that are garbage are accepted");
    if (!IsRefused(opened.status())) {
      return Failed("parameters that are garbage are refused, but not as INVALID_ARGUMENT",
                    opened.status());
    }
  }
  const auto after = session.Open(session.problem());
  return after.ok() ? Passed(fmt::format("{} bytes of parameters", parameters.size()))
                    : Failed("OpenContext after garbage", after.status());
}

Finding CheckCalibration(ConformanceSession& session) {
  if (!session.info().has_calibration) return Skipped("it has no FitCalibration");
  const std::string& chip = session.problem().cluster.pools.front().chip.id;
  wire::ListCalibrationTestsRequest list;
  list.set_chip(chip);
  const auto tests = CallModel<wire::ListCalibrationTestsResponse>(
      session.stub(), &Stub::ListCalibrationTests, list, {});
  if (!tests.ok()) return Failed("ListCalibrationTests", tests.status());
  if (std::string why = WhyBad(*tests); !why.empty()) return Failed(std::move(why));
  wire::FitCalibrationRequest request;
  request.set_chip(chip);
  for (const wire::CalibrationTest& test : tests->tests()) {
    wire::CalibrationMeasurement& measured = *request.add_measurements();
    measured.set_name(test.name());
    measured.set_value(MadeUp(test, session.problem()));
  }
  const auto fit = [&] {
    return CallModel<wire::FitCalibrationResponse>(session.stub(), &Stub::FitCalibration, request,
                                                   {});
  };
  const auto fitted = fit();
  if (IsRefused(fitted.status())) {
    return Skipped("it refuses made-up measurements: " + std::string(fitted.status().message()));
  }
  if (!fitted.ok()) return Failed("FitCalibration", fitted.status());
  const std::size_t size = fitted->calibration().size();
  if (size == 0 || size > kMaxParameterBytes) {
    return Failed(fmt::format("{} bytes of parameters; must be 1 to {}", size, kMaxParameterBytes));
  }
  request.mutable_measurements(0)->set_value(std::numeric_limits<double>::quiet_NaN());
  if (fit().ok()) return Failed("a measurement that is not a number is accepted");
  return CheckParameters(session, fitted->calibration());
}

}  // namespace

std::vector<ConformanceCheck> OptionalChecks() {
  return {
      {"lower_bound", "no estimate is below its bound", &CheckLowerBound},
      {"explain", "an explanation of a candidate has lines", &CheckExplain},
      {"calibration",
       "measurements become parameters of at most 1 MiB, which it answers with and whose bounds "
       "hold; garbage is refused",
       &CheckCalibration}};
}

}  // namespace meshwright
