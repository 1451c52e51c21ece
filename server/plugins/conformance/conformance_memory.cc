// Checks of memory that is known without a model: the states of training.

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/conformance/conformance_session.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

// Bytes per parameter. Mixed-precision training with Adam holds a parameter in 16 bits, its
// gradient in 16 or 32, and in 32 bits a master copy and two moments: 2 + 2 (or 4) + 12
// (Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models,
// section 3.1).
struct StateBytes {
  double weights = 2;
  double gradients = 2;
  double optimizer = 12;
};

// The most that a model may count above the states: half of them again (unequal stages, copies,
// fragmentation) and 16 GB. Full recomputation of one sequence of 2,048 tokens leaves activations
// and logits of less than 3 GB; the rest is for a runtime and its buffers. A model that forgets to
// divide by ZeRO's ranks, tensor ranks or stages, or that counts bits, is above this in some row of
// the table.
constexpr double kMaxStateRatio = 1.5;
constexpr double kMaxOtherBytes = 16e9;
constexpr double kTooLittle = 0.9;  // times the least memory that the states take
constexpr double kRoom = 2;         // times the most memory

// Known memory with one sequence per micro-batch and full recomputation.
struct KnownMemory {
  int tensor_parallel = 1;
  int pipeline_parallel = 1;
  int zero_stage = 1;
};
constexpr KnownMemory kKnown[] = {{1, 1, 0}, {1, 1, 1}, {1, 1, 2}, {1, 1, 3},
                                  {8, 1, 1}, {1, 4, 1}, {4, 2, 1}};

StateBytes LeastStates(Precision precision) {
  switch (precision) {
    case Precision::kFp8:  // the only copy of the weights may have 8 bits
      return {.weights = 1};
    case Precision::kFp32:  // needs no master copy
      return {.weights = 4, .gradients = 4, .optimizer = 8};
    case Precision::kBf16:
    case Precision::kFp16:
      break;
  }
  return {};
}

StateBytes MostStates(Precision precision) {
  StateBytes states = {.gradients = 4};
  if (precision == Precision::kFp8) states.weights = 3;  // in 8 bits and in 16
  if (precision == Precision::kFp32) states.weights = 4;
  return states;
}

ParallelPlan PlanOf(const KnownMemory& known, const Problem& problem) {
  const int ranks = known.tensor_parallel * known.pipeline_parallel;
  return {.tensor_parallel = known.tensor_parallel,
          .sequence_parallel = known.tensor_parallel > 1,
          .pipeline_parallel = known.pipeline_parallel,
          .data_parallel = DeviceCount(problem.cluster) / ranks,
          .zero_stage = known.zero_stage,
          .recompute = {.granularity = RecomputeGranularity::kFull}};
}

// Returns the bytes of the mean device; the busiest has at least as many.
double StateBytesOf(const StateBytes& states, const ParallelPlan& plan, const Problem& problem) {
  const auto parameters = static_cast<double>(ParameterCount(problem.model, false));
  const double data = plan.data_parallel;
  const double of_parameter = states.weights / (plan.zero_stage >= 3 ? data : 1) +
                              states.gradients / (plan.zero_stage >= 2 ? data : 1) +
                              states.optimizer / (plan.zero_stage >= 1 ? data : 1);
  return parameters * of_parameter / (plan.tensor_parallel * plan.pipeline_parallel);
}

ConformanceSession::Answers AskWithCapacity(ConformanceSession& session, const ParallelPlan& plan,
                                            double bytes) {
  Problem problem = session.problem();
  problem.cluster.pools.front().memory_capacity = RoundedBytes(bytes);
  return session.AskAbout(problem, {plan});
}

// The check is skipped if the model answers with neither OK nor INFEASIBLE_MEMORY.
Finding CheckKnownMemory(ConformanceSession& session, const KnownMemory& known) {
  const Problem& problem = session.problem();
  const ParallelPlan plan = PlanOf(known, problem);
  const Precision precision = problem.workload.precision;
  const double least = StateBytesOf(LeastStates(precision), plan, problem);
  const double most =
      kMaxStateRatio * StateBytesOf(MostStates(precision), plan, problem) + kMaxOtherBytes;
  const std::string name = MakePlanKey(plan).text;
  const auto fitting = AskWithCapacity(session, plan, kRoom * most);
  if (!fitting.ok()) return Failed("EstimateBatch", fitting.status());
  const PlanFigures& figures = fitting->front();
  if (figures.verdict == PlanVerdict::kInfeasibleMemory) {
    return Failed(
        fmt::format("{} takes {:.1f} GB for its states, and is INFEASIBLE_MEMORY in "
                    "{:.1f} GB",
                    name, least / 1e9, kRoom * most / 1e9));
  }
  if (figures.verdict != PlanVerdict::kOk) return Skipped(name + ": " + figures.reason);
  const auto peak = static_cast<double>(figures.peak_memory.value_or(RoundedBytes(least)).count);
  if (!(peak >= least - 1 && peak <= most)) {
    return Failed(
        fmt::format("{}: its peak memory is {:.4g} GB; must be from {:.4g}, the size of the "
                    "states, to {:.4g}",
                    name, peak / 1e9, least / 1e9, most / 1e9));
  }
  const auto tight = AskWithCapacity(session, plan, kTooLittle * least);
  if (!tight.ok()) return Failed("EstimateBatch", tight.status());
  if (tight->front().verdict == PlanVerdict::kInfeasibleMemory) return Passed();
  return Failed(
      fmt::format("the states of {} take {:.1f} GB, but it is not INFEASIBLE_MEMORY in {:.1f} GB",
                  name, least / 1e9, kTooLittle * least / 1e9));
}

Finding CheckMemory(ConformanceSession& session) {
  int passed = 0;
  std::string skipped;
  for (const KnownMemory& known : kKnown) {
    Finding finding = CheckKnownMemory(session, known);
    if (finding.outcome == CheckOutcome::kFailed) return finding;
    if (finding.outcome == CheckOutcome::kSkipped) skipped = std::move(finding.detail);
    if (finding.outcome == CheckOutcome::kPassed) ++passed;
  }
  if (passed == 0) return Failed("it estimates no plan whose memory is known: " + skipped);
  return Passed(fmt::format("{} of {} plans whose states are known", passed, std::size(kKnown)));
}

}  // namespace

std::vector<ConformanceCheck> MemoryChecks() {
  return {{"memory",
           "plans fit if their training states do and not if they cannot; peak memory, if it is "
           "stated, is between those states and a generous bound",
           &CheckMemory}};
}

}  // namespace meshwright
