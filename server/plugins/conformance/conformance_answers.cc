// Checks of a model's answers: shape, units, physics, laws.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "search_space/base/clean_text.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/conformance/conformance_session.h"
#include "server/plugins/output_check.h"
#include "server/plugins/wire/model_client.h"
#include "server/plugins/wire/question_wire.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;

constexpr std::size_t kPlans = 256;
constexpr double kTolerance = 1e-9;  // so that rounding breaks no law
// The least share of the nominal peak. No plan reaches the whole peak, so times given in
// milliseconds stay below this on any chip. Published runs of well-chosen plans reach a tenth and
// more, so a model fails only if it is wrong a hundredfold.
constexpr double kLeastUtilization = 1e-3;
// Doubling devices and batch leaves each device the same work and adds some communication.
constexpr double kLeastWeakScaling = 0.9;
constexpr double kMaxWeakScaling = 1.6;

std::string NameOf(const ParallelPlan& plan) { return MakePlanKey(plan).text; }

struct Asked {
  std::vector<ParallelPlan> plans = {};
  std::vector<PlanFigures> figures = {};
};

absl::StatusOr<Asked> AskAll(ConformanceSession& session, const Problem& problem) {
  Asked asked = {.plans = ConformancePlans(problem, kPlans)};
  auto answers = session.AskAbout(problem, asked.plans);
  if (!answers.ok()) return answers.status();
  asked.figures = *std::move(answers);
  return asked;
}

// The provenance must be empty or a word of the contract.
Finding CheckProvenance(ConformanceSession& session) {
  const auto context = session.Open(session.problem());
  if (!context.ok()) return Failed("OpenContext", context.status());
  const std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), 1);
  const auto raw = session.AskRaw(*context, ToCandidates(plans, session.problem()));
  if (!raw.ok()) return Failed("EstimateBatch", raw.status());
  constexpr std::string_view kWords[] = {"",       "measured",  "transferred",
                                         "fitted", "published", "assumed"};
  if (std::ranges::find(kWords, raw->provenance()) != std::end(kWords)) return Passed();
  return Failed("its provenance '" + CleanText(raw->provenance(), {.longest_bytes = 64}) +
                "' is not measured, transferred, fitted, published or assumed");
}

Finding CheckAnswers(ConformanceSession& session) {
  const auto asked = AskAll(session, session.problem());
  if (!asked.ok()) return Failed("EstimateBatch", asked.status());
  std::size_t ok = 0;
  for (std::size_t i = 0; i < asked->plans.size(); ++i) {
    const PlanFigures& figures = asked->figures[i];
    ok += figures.verdict == PlanVerdict::kOk ? 1 : 0;
    if (figures.verdict != PlanVerdict::kOk && figures.reason.empty()) {
      return Failed(NameOf(asked->plans[i]) + " is not OK and has no reason");
    }
  }
  if (ok == 0) {
    return Failed("no plan of a 7 B model on 16 devices is OK: " + asked->figures.front().reason);
  }
  Finding provenance = CheckProvenance(session);
  if (provenance.outcome != CheckOutcome::kPassed) return provenance;
  return Passed(fmt::format("{} of {} plans are OK", ok, asked->plans.size()));
}

Finding CheckPhysics(ConformanceSession& session) {
  const auto asked = AskAll(session, session.problem());
  if (!asked.ok()) return Failed("EstimateBatch", asked.status());
  const OutputCheck check(session.problem());
  for (std::size_t i = 0; i < asked->plans.size(); ++i) {
    PlanFigures figures = asked->figures[i];
    if (figures.verdict != PlanVerdict::kOk) continue;
    check.Apply(asked->plans[i], figures);
    if (figures.verdict != PlanVerdict::kOk) {
      return Failed(NameOf(asked->plans[i]) + ": " + figures.reason);
    }
  }
  return Passed();
}

Finding CheckUnits(ConformanceSession& session) {
  const auto asked = AskAll(session, session.problem());
  if (!asked.ok()) return Failed("EstimateBatch", asked.status());
  const Seconds least = OutputCheck(session.problem()).least_step();
  double best = 0;
  for (const PlanFigures& figures : asked->figures) {
    const bool counts = figures.verdict == PlanVerdict::kOk && IsLikelyTime(figures.step_time);
    if (counts) best = std::max(best, least / figures.step_time);
  }
  if (best == 0) return Skipped("no plan has a time");
  const std::string seen = fmt::format("the fastest plan reaches {:.2g} of the nominal peak", best);
  return best >= kLeastUtilization ? Passed(seen) : Failed(seen + ": are its times in seconds?");
}

// Looks for plans that get slower, or no longer fit, on a better cluster.
Finding CompareClusters(ConformanceSession& session, const std::string& what,
                        void (*improve)(NodePool& pool)) {
  Problem better = session.problem();
  improve(better.cluster.pools.front());
  const auto plain = AskAll(session, session.problem());
  if (!plain.ok()) return Failed("EstimateBatch", plain.status());
  const auto improved = AskAll(session, better);
  if (!improved.ok()) return Failed("EstimateBatch", improved.status());
  for (std::size_t i = 0; i < plain->plans.size(); ++i) {
    const PlanFigures& before = plain->figures[i];
    const PlanFigures& after = improved->figures[i];
    if (before.verdict != PlanVerdict::kOk || !IsLikelyTime(before.step_time)) continue;
    if (after.verdict != PlanVerdict::kOk) {
      return Failed(fmt::format("with {}, {} is no longer OK", what, NameOf(plain->plans[i])));
    }
    if (after.step_time > before.step_time * (1 + kTolerance)) {
      return Failed(fmt::format("with {}, {} takes {} s instead of {} s", what,
                                NameOf(plain->plans[i]), after.step_time.count(),
                                before.step_time.count()));
    }
  }
  return Passed();
}

Finding CheckMonotony(ConformanceSession& session) {
  struct Row {
    std::string what;
    void (*improve)(NodePool& pool);
  };
  const Row rows[] = {
      {"double memory bandwidth",
       [](NodePool& p) { p.chip.memory_bandwidth = p.chip.memory_bandwidth * 2; }},
      {"double bandwidth in the node",
       [](NodePool& p) { p.intra_node.bandwidth = p.intra_node.bandwidth * 2; }},
      {"double bandwidth between nodes",
       [](NodePool& p) { p.inter_node.nic_bandwidth = p.inter_node.nic_bandwidth * 2; }},
      {"double memory", [](NodePool& p) { p.memory_capacity = p.memory_capacity * 2; }}};
  for (const Row& row : rows) {
    Finding finding = CompareClusters(session, row.what, row.improve);
    if (finding.outcome != CheckOutcome::kPassed) return finding;
  }
  return Passed();
}

Finding CheckScaling(ConformanceSession& session) {
  Problem twice = session.problem();
  twice.cluster.pools.front().node_count *= 2;
  twice.workload.global_batch_size *= 2;
  std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), 24);
  const auto once = session.AskAbout(session.problem(), plans);
  if (!once.ok()) return Failed("EstimateBatch", once.status());
  for (ParallelPlan& plan : plans) plan.data_parallel *= 2;
  const auto doubled = session.AskAbout(twice, plans);
  if (!doubled.ok()) return Failed("EstimateBatch", doubled.status());
  double most = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const bool is_both =
        (*once)[i].verdict == PlanVerdict::kOk && (*doubled)[i].verdict == PlanVerdict::kOk;
    if (!is_both || !IsLikelyTime((*once)[i].step_time)) continue;
    const double ratio = (*doubled)[i].step_time / (*once)[i].step_time;
    most = std::max(most, ratio);
    if (!(ratio >= kLeastWeakScaling && ratio <= kMaxWeakScaling)) {
      return Failed(fmt::format("{}: the time changes by a factor of {:.3g}; must be {} to {}",
                                NameOf(plans[i]), ratio, kLeastWeakScaling, kMaxWeakScaling));
    }
  }
  return Passed(fmt::format("at most {:.3g} times the time", most));
}

// Checks that the model refuses a context, or every candidate in it.
Finding RefusesContext(ConformanceSession& session, const std::string& what,
                       const wire::OpenContextRequest& request) {
  const auto context = session.Open(request);
  if (!context.ok()) {
    if (absl::IsInvalidArgument(context.status()) || absl::IsUnimplemented(context.status()) ||
        absl::IsNotFound(context.status()) || absl::IsFailedPrecondition(context.status())) {
      return Passed();
    }
    return Failed(what + " is refused, but not as INVALID_ARGUMENT", context.status());
  }
  const auto answers = session.Ask(*context, ConformancePlans(session.problem(), 8));
  if (!answers.ok()) return Failed(what, answers.status());
  for (const PlanFigures& figures : *answers) {
    if (figures.verdict == PlanVerdict::kOk) return Failed(what + " is estimated, not refused");
  }
  return Passed();
}

// Returns the problem with an operator added to its model.
Problem WithOperator(const Problem& problem, std::string_view name) {
  Problem changed = problem;
  ModelSpec& model = changed.model;
  if (name == "moe") {
    model.moe = MoeSpec{.expert_count = 8,
                        .experts_per_token = 2,
                        .expert_ffn_hidden_size = model.ffn_hidden_size / 4};
  } else if (name == "mla") {
    model.mla = MlaSpec{.kv_lora_rank = 512,
                        .qk_nope_head_dim = model.head_dim,
                        .qk_rope_head_dim = model.head_dim / 2,
                        .v_head_dim = model.head_dim};
  } else if (name == "sliding_window") {
    model.sliding_window = problem.workload.sequence_length / 2;
  } else if (name == "mtp") {
    model.mtp_layer_count = 1;
  }
  return changed;
}

// The refusal must come before any plan is asked about: a study that learns of it only with its
// first batch has waited for nothing.
Finding RefusesOperators(ConformanceSession& session) {
  const std::vector<std::string>& declared = session.info().operators;
  for (const std::string_view name : {"moe", "mla", "sliding_window", "mtp"}) {
    if (std::ranges::find(declared, name) != declared.end()) continue;
    const auto context = session.Open(WithOperator(session.problem(), name));
    if (context.ok()) {
      return Failed(
          fmt::format("{}, which is not among its operators, is estimated, not refused", name));
    }
    if (!absl::IsInvalidArgument(context.status()) && !absl::IsUnimplemented(context.status())) {
      return Failed(fmt::format("{} is refused, but not as INVALID_ARGUMENT", name),
                    context.status());
    }
  }
  return Passed();
}

bool KnowsAllChips(const ModelInfo& info) {
  return std::ranges::find(info.chips, "*") != info.chips.end();
}

Finding CheckRefusals(ConformanceSession& session) {
  wire::OpenContextRequest precision = ToContext(session.problem());
  precision.mutable_workload()->set_precision("conformance-fp3");
  wire::OpenContextRequest kernel = ToContext(session.problem());
  kernel.mutable_workload()->set_attention_kernel("conformance-kernel");
  wire::OpenContextRequest chip = ToContext(session.problem());
  chip.mutable_cluster()->mutable_pools(0)->mutable_chip()->set_id("conformance-chip");
  Finding finding = RefusesContext(session, "an unknown precision", precision);
  if (finding.outcome == CheckOutcome::kPassed) {
    finding = RefusesContext(session, "an unknown attention kernel", kernel);
  }
  if (finding.outcome == CheckOutcome::kPassed && !KnowsAllChips(session.info())) {
    finding = RefusesContext(session, "an unknown chip", chip);
  }
  if (finding.outcome == CheckOutcome::kPassed) finding = RefusesOperators(session);
  if (finding.outcome != CheckOutcome::kPassed) return finding;
  const auto context = session.Open(session.problem());
  if (!context.ok()) return Failed("OpenContext", context.status());
  wire::Candidates candidates =
      ToCandidates(ConformancePlans(session.problem(), 2), session.problem());
  candidates.clear_schedule();
  candidates.add_schedule(static_cast<wire::Schedule>(999));
  candidates.add_schedule(wire::SCHEDULE_1F1B);
  const auto raw = session.AskRaw(*context, candidates);
  if (!raw.ok()) return Failed("an unknown schedule fails the whole batch", raw.status());
  const auto answers = FromWire(*raw, 2, false);
  if (!answers.ok()) return Failed("an unknown schedule", answers.status());
  if (answers->front().verdict == PlanVerdict::kOk)
    return Failed("an unknown schedule is estimated, not refused");
  return Passed();
}

}  // namespace

std::vector<ConformanceCheck> AnswerChecks() {
  return {{"answers", "one answer for each candidate; those that are not OK have a reason",
           &CheckAnswers},
          {"units", "times are seconds", &CheckUnits},
          {"physics",
           "times are finite, above 0 and no faster than the nominal peak; memory holds the "
           "parameters; breakdowns add up",
           &CheckPhysics},
          {"monotony", "more bandwidth is never slower, more memory never less feasible",
           &CheckMonotony},
          {"scaling", "double data parallelism with double batch takes about the same time",
           &CheckScaling},
          {"refusals",
           "unknown chips, precisions, kernels, operators and schedules are refused, not estimated",
           &CheckRefusals}};
}

}  // namespace meshwright
