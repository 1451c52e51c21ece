#include "server/tuner/answers/switched.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "estimator/legality/legality.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/choice/choice.h"
#include "server/tuner/choice/switches.h"
#include "server/tuner/choice/verdict.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/search/strategies.h"

namespace meshwright {
namespace {

// A setting that saves a smaller share of the step is not worth a line.
constexpr double kSpokenGain = 0.01;

PreparedQuestion WithSettings(PreparedQuestion question,
                              const std::vector<WorkloadSetting>& settings) {
  question.problem = WithSettings(std::move(question.problem), settings);
  return question;
}

const ChipSpec& ChipOf(const Problem& problem) { return problem.cluster.pools.front().chip; }

std::vector<const Switch*> OpenSwitches(const PreparedQuestion& question) {
  return OpenSwitches(question.problem, question.request.question.workload);
}

// Returns settings with their flags: "overlap.tensor_parallel true (--tp-comm-overlap)".
std::string WordsOf(const std::vector<const Switch*>& switches) {
  std::vector<std::string> words;
  for (const Switch* const row : switches) {
    words.push_back(fmt::format("{} {} ({})", row->field, row->value, row->flag));
  }
  return fmt::format("{}", fmt::join(words, " and "));
}

std::vector<const Switch*> TurnedOn(const PreparedQuestion& question) {
  std::vector<const Switch*> on = OpenSwitches(question);
  std::erase_if(on,
                [&](const Switch* row) { return !MayTurnOn(*row, ChipOf(question.problem).id); });
  return on;
}

}  // namespace

std::vector<WorkloadSetting> SettingsToTurnOn(const PreparedQuestion& question) {
  const bool is_meant = question.request.strategy == kExhaustive &&
                        !question.request.cost_model.has_value() &&
                        question.problem.cluster.pools.size() == 1;
  if (!is_meant) return {};
  return SettingsOf(TurnedOn(question));
}

SwitchedPlans::SwitchedPlans(const PreparedQuestion& question,
                             std::vector<WorkloadSetting> settings)
    : plain_(question),
      settings_(std::move(settings)),
      switched_(WithSettings(question, settings_)),
      plain_model_(ToEstimatorProblem(plain_.problem), plain_.learnt.calibration),
      switched_model_(ToEstimatorProblem(switched_.problem), plain_.learnt.calibration) {}

RankedPlan SwitchedPlans::Plain(const ParallelPlan& plan) {
  return RankPlan(plan, plain_.problem, plain_model_);
}

RankedPlan SwitchedPlans::Switched(const ParallelPlan& plan) {
  RankedPlan ranked = RankPlan(plan, switched_.problem, switched_model_);
  ranked.settings = settings_;
  return ranked;
}

RankedPlan SwitchedPlans::Fastest(const ParallelPlan& plan) {
  RankedPlan plain = Plain(plan);
  if (settings_.empty()) return plain;
  RankedPlan switched = Switched(plan);
  const bool is_faster = switched.estimate.step_time < plain.estimate.step_time;
  return is_faster ? std::move(switched) : std::move(plain);
}

RankedPlan SwitchedPlans::Usual(const ParallelPlan& plan) {
  RankedPlan fastest = Fastest(plan);
  if (fastest.settings.empty()) return fastest;
  RankedPlan plain = Plain(plan);
  const Seconds fast = fastest.estimate.step_time;
  const Seconds slow = plain.estimate.step_time;
  const bool is_tied = slow <= fast * kMaxTieRatio &&
                       FasterProbability(fast, UncertaintyOf(fastest), slow, UncertaintyOf(plain)) <
                           plain_.request.choice.tie_probability;
  return is_tied ? std::move(plain) : std::move(fastest);
}

TimeUncertainty SwitchedPlans::UncertaintyOf(const RankedPlan& ranked) {
  AnalyticModel& model = ranked.settings.empty() ? plain_model_ : switched_model_;
  return model.UncertaintyOf(ranked.plan, ranked.estimate);
}

void SwitchedPlans::Note(StudyResult& result) {
  if (result.plans.empty() || !result.recommendation.has_value()) return;
  NoteGain(result);
  NoteOthers(result);
  const auto add = [&](RankedPlan& ranked) {
    if (!ranked.settings.empty()) AddExport(switched_.problem, ranked, result.warnings);
  };
  for (RankedPlan& ranked : result.plans) add(ranked);
  for (ParetoPoint& point : result.pareto_front) add(point.plan);
  if (result.model_optimum.has_value()) add(*result.model_optimum);
}

void SwitchedPlans::NoteGain(StudyResult& result) {
  const RankedPlan& first = result.plans.front();
  if (first.settings.empty()) return;
  const std::vector<const Switch*> on = TurnedOn(plain_);
  const double slower = Plain(first.plan).estimate.step_time / first.estimate.step_time - 1;
  Recommendation& recommendation = *result.recommendation;
  recommendation.facts.push_back(
      {.code = VerdictCode::kSwitchesPay, .settings = WordsOf(on), .slower_ratio = slower});
  recommendation.reason = VerdictText(recommendation.facts, plain_.request.choice);
  for (const Switch* const row : on) {
    for (AppliedDefault& applied : result.applied_defaults) {
      if (applied.field != fmt::format("workload.{}", row->field)) continue;
      applied.source += fmt::format("; plan 1 has {}, as {}", row->value, row->source);
    }
  }
}

void SwitchedPlans::NoteOthers(StudyResult& result) {
  const RankedPlan& first = result.plans.front();
  const PreparedQuestion& own = first.settings.empty() ? plain_ : switched_;
  for (const Switch* const row : OpenSwitches(plain_)) {
    const std::vector<WorkloadSetting> setting = SettingsOf(std::vector{row});
    const bool is_tried = std::ranges::find(settings_, setting.front()) != settings_.end();
    if (is_tried) continue;
    const Problem with = WithSettings(own.problem, setting);
    if (!BrokenRules(ToEstimatorProblem(with), first.plan).empty()) continue;
    AnalyticModel model(ToEstimatorProblem(with), plain_.learnt.calibration);
    const double gain = 1 - model.Full(first.plan).step_time / first.estimate.step_time;
    if (gain < kSpokenGain) continue;
    result.warnings.push_back(
        fmt::format("{} ({} {}) would take {:.1f} % off a step of plan 1 by the model; it is not "
                    "set because {}",
                    row->flag, row->field, row->value, 100 * gain,
                    row->changes_numerics ? "it changes the numbers that are computed"
                                          : "no published run on this chip confirms it"));
  }
}

}  // namespace meshwright
