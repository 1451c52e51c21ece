#pragma once

#include <optional>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// Returns the plan that a careful person would choose by hand: the smallest tensor x pipeline
// product, with tensor parallelism inside the node first, that fits with micro-batch 1, ZeRO-1 (or
// else the stage of ZeRO that the framework has) and no recomputation, or else with full
// recomputation. If none fits, it splits the sequence by the smallest context parallelism with
// which one does. With experts, it takes the smallest expert parallelism that makes it fit. Where
// the framework shards weights first, it is ZeRO 3 over all devices, if that fits. It uses at most
// this share of each device's memory. Returns nullopt if no such plan is legal and fits.
std::optional<ParallelPlan> RuleOfThumbBaseline(const Problem& problem, AnalyticModel& model,
                                                double share = 1);

enum class BaselineOrigin { kStated, kRecipe, kRuleOfThumb };

struct UsualPlan {
  ParallelPlan plan = {};
  BaselineOrigin origin = BaselineOrigin::kRuleOfThumb;
};

// Returns the nearest published recipe of the framework if there is one that is legal and fits, or
// else the rule of thumb; with a fit probability of 0.95 if either has it. `applied` gains a line
// that says which.
std::optional<UsualPlan> DefaultBaseline(const Problem& problem, AnalyticModel& model,
                                         std::vector<AppliedDefault>& applied);

struct Baseline {
  RankedPlan ranked = {};
  BaselineOrigin origin = BaselineOrigin::kStated;
};

// Returns the stated baseline, or the default if there is none. `applied` gains the defaults that
// it took.
std::optional<Baseline> BaselineOf(const std::optional<ResolvedPlan>& stated,
                                   const Problem& problem, AnalyticModel& model,
                                   std::vector<AppliedDefault>& applied);

// Adds to an answer that has plans what there is to say about its baseline.
void NoteBaseline(StudyResult& result);

}  // namespace meshwright
