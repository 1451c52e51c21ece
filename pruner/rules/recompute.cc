#include "pruner/rules/recompute.h"

#include <algorithm>
#include <set>
#include <span>

#include "estimator/legality/legality.h"
#include "estimator/model/plan_bounds.h"
#include "estimator/model/recompute_mixes.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "pruner/rules/history.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"

namespace meshwright {
namespace {

class Narrowing {
 public:
  Narrowing(AnalyticModel& model, const SearchSpace& space, const ParallelPlan& prefix,
            const NarrowOptions& options)
      : model_(model),
        space_(space),
        plan_(prefix),
        options_(options),
        has_rules_(options.by_framework && HasRules(model.problem())) {}

  std::optional<RecomputeChoice> At(int code) {
    space_.Set(Dimension::kRecompute, code, plan_);
    return Estimate();
  }

  // Returns plan_ with its cost, or nullopt if the bound says that it is of no use.
  std::optional<RecomputeChoice> Estimate() {
    if (options_.slowest_useful.has_value()) {
      const std::optional<Seconds> least = PlanBounds(model_).LeastTimeIfPriced(plan_);
      if (least.has_value() && *least > *options_.slowest_useful) {
        ++result_.pruned_by_bound;
        return std::nullopt;
      }
    }
    ++result_.evaluated;
    return RecomputeChoice{
        .plan = plan_,
        .estimate = options_.by_closed_form ? model_.ClosedForm(plan_) : model_.Quick(plan_)};
  }

  // Returns the memory of a choice only; its plan is in plan_ afterwards.
  MemoryCheck MemoryAt(int code) {
    space_.Set(Dimension::kRecompute, code, plan_);
    return model_.CheckMemory(plan_);
  }

  // Evaluates the choice if it fits, and otherwise counts it as pruned. Returns true if it fits.
  bool KeepIfItFits(int code) {
    const MemoryCheck check = MemoryAt(code);
    if (!check.fits) {
      ++result_.pruned_by_memory;
      NoteMiss(check.reserved_memory);
      return false;
    }
    Keep(At(code));
    return true;
  }

  // Keeps a choice. A choice that failed still tells which of its neighbours fit.
  void Keep(std::optional<RecomputeChoice> choice) {
    if (!choice.has_value()) return;
    if (HasFailed(choice->plan)) {
      --result_.evaluated;
      ++result_.failed;
      return;
    }
    result_.kept.push_back(*std::move(choice));
  }

  // Remembers the plan with the least memory among those that do not fit; plan_ is one of them.
  void NoteMiss(Bytes reserved) {
    if (!result_.least_memory.has_value() || reserved < result_.least_memory->reserved_memory) {
      result_.least_memory = {.plan = plan_, .reserved_memory = reserved};
    }
  }

  NarrowedRecompute& result() { return result_; }

  void LookAtAll(std::span<const int> codes, bool by_memory) {
    for (const int code : codes) {
      if (by_memory) {
        KeepIfItFits(code);
        continue;
      }
      std::optional<RecomputeChoice> choice = At(code);
      if (!choice.has_value()) continue;
      if (choice->estimate.fits) {
        Keep(std::move(choice));
      } else {
        NoteMiss(choice->estimate.reserved_memory);
      }
    }
  }

  // Drops the choices that the framework refuses to run.
  void DropIllegal(std::vector<int>& codes) {
    if (!has_rules_) return;
    result_.pruned_by_framework += static_cast<std::int64_t>(std::erase_if(codes, [&](int code) {
      space_.Set(Dimension::kRecompute, code, plan_);
      return IsIllegal();
    }));
    Plain();
  }

  // Adds the best choice in which each stage recomputes individually, besides the choices that are
  // kept.
  void AddByStage(std::span<const int> codes) {
    if (codes.empty() || !SetByStage(codes)) return;
    if (HasFailed(plan_)) {
      AddNextByStage();
    } else {
      KeepByStage();
    }
  }

  // Finds the least number of fully recomputed layers that fits, for all stages alike or for each
  // of them; or finds that no number fits.
  void NarrowFull(std::span<const int> codes) {
    if (codes.empty()) return;
    const std::size_t fits = LeastThatFits(codes);
    const bool is_by_stage = SetByStage(codes);
    if (!is_by_stage && fits == codes.size()) {
      result_.pruned_by_memory += static_cast<std::int64_t>(codes.size());
      NoteMiss(MemoryAt(codes.back()).reserved_memory);
      return;
    }
    if (!is_by_stage) space_.Set(Dimension::kRecompute, codes[fits], plan_);
    const std::size_t misses = std::min(fits, codes.size() - 1);
    result_.pruned_by_memory += static_cast<std::int64_t>(misses);
    result_.pruned_by_dominance += static_cast<std::int64_t>(codes.size() - 1 - misses);
    std::optional<RecomputeChoice> choice = Estimate();
    if (choice.has_value() && !IsSelectiveChoice(*choice)) Keep(std::move(choice));
  }

 private:
  static bool HasRules(const EstimatorProblem& problem) {
    return std::ranges::any_of(problem.legality, [](const LegalityRule* rule) {
      return rule->decided_by == Dimension::kRecompute;
    });
  }

  // Returns true if the framework refuses the recomputation of plan_.
  [[nodiscard]] bool IsIllegal() const {
    return has_rules_ && BrokenRule(model_.problem(), plan_, Dimension::kRecompute) != nullptr;
  }

  [[nodiscard]] bool HasFailed(const ParallelPlan& plan) const {
    return options_.failed != nullptr && options_.failed->Find(plan) != nullptr;
  }

  // Keeps plan_, whose stages recompute individually, unless it equals one of the kept choices.
  void KeepByStage() {
    // The space counts it among the choices that have been checked already.
    const std::int64_t evaluated = result_.evaluated;
    const std::int64_t pruned_by_bound = result_.pruned_by_bound;
    std::optional<RecomputeChoice> choice = Estimate();
    result_.evaluated = evaluated;
    result_.pruned_by_bound = pruned_by_bound;
    if (!choice.has_value() || !choice->estimate.fits) return;
    const bool is_kept = std::ranges::any_of(result_.kept, [&](const RecomputeChoice& kept) {
      return kept.estimate.step_time == choice->estimate.step_time &&
             kept.estimate.reserved_memory == choice->estimate.reserved_memory;
    });
    if (!is_kept) Keep(std::move(choice));
  }

  // Adds the neighbours of the fastest choice by stage if that has failed, because the best choice
  // is among them. A neighbour has one stage at its next slower mix. If a neighbour has failed too,
  // its own neighbours follow.
  void AddNextByStage() {
    const std::vector<std::vector<RecomputeMix>> mixes =
        RecomputeMixes(model_, Plain()).Fitting(space_.options().mixes_recompute);
    using Places = std::vector<std::size_t>;  // indices into the list of each stage
    std::vector<Places> open = {Places(mixes.size(), 0)};
    std::set<Places> seen(open.begin(), open.end());
    while (!open.empty()) {
      const Places places = std::move(open.back());
      open.pop_back();
      std::vector<RecomputeMix> chosen;
      for (std::size_t stage = 0; stage < places.size(); ++stage) {
        chosen.push_back(mixes[stage][places[stage]]);
      }
      SetMixes(chosen);
      if (!HasFailed(plan_)) {
        KeepByStage();
        continue;
      }
      for (std::size_t stage = 0; stage < places.size(); ++stage) {
        Places next = places;
        if (++next[stage] == mixes[stage].size() || !seen.insert(next).second) continue;
        open.push_back(std::move(next));
      }
    }
  }

  // Returns true if a mix equals the kept choice of selective recomputation of every layer.
  [[nodiscard]] bool IsSelectiveChoice(const RecomputeChoice& mix) const {
    const RecomputePlan& recompute = mix.plan.recompute;
    const bool has_full = std::ranges::any_of(recompute.layer_counts, [](int c) { return c > 0; });
    if (has_full || recompute.selective_layer_counts.empty() || result_.kept.empty()) return false;
    const QuickEstimate& kept = result_.kept.back().estimate;
    return kept.step_time == mix.estimate.step_time &&
           kept.reserved_memory == mix.estimate.reserved_memory;
  }

  // Returns true if stages may differ. A user who states recomputation means it for all stages.
  [[nodiscard]] bool IsOpen() const {
    const SpaceOptions& options = space_.options();
    return !options.chosen.contains(Dimension::kRecompute) &&
           options.recomputed_layers == DimensionChoice();
  }

  // Sets plan_ to the recomputation of each individual stage if the space and the framework allow
  // it. Returns true if the plan fits.
  bool SetByStage(std::span<const int> codes) {
    if (!IsOpen()) return false;
    const SpaceOptions& options = space_.options();
    const bool is_by_stage = options.recomputes_by_stage && plan_.pipeline_parallel > 1;
    if (!options.mixes_recompute && !is_by_stage) return false;
    const bool fits = options.mixes_recompute ? MixByStage() : RecomputeByStage(codes.back() - 1);
    if (fits && IsIllegal()) {
      Plain();
      return false;
    }
    return fits;
  }

  // Sets the fastest mix that fits for each stage. Returns true if every stage has one.
  bool MixByStage() {
    const auto mixes = RecomputeMixes(model_, Plain()).Fastest();
    if (mixes.has_value()) SetMixes(*mixes);
    return mixes.has_value();
  }

  // Returns plan_ without recomputation.
  const ParallelPlan& Plain() {
    plan_.recompute = {};
    return plan_;
  }

  // Sets one mix for each stage.
  void SetMixes(std::span<const RecomputeMix> mixes) {
    RecomputePlan& recompute = plan_.recompute;
    recompute = {.granularity = RecomputeGranularity::kFull};
    for (const RecomputeMix& mix : mixes) {
      recompute.layer_counts.push_back(mix.full);
      recompute.selective_layer_counts.push_back(mix.selective);
    }
    const bool is_full =
        std::ranges::all_of(mixes, [](const RecomputeMix& mix) { return mix.selective == 0; });
    if (is_full) recompute.selective_layer_counts.clear();
  }

  // Returns the index of the first code that fits, or the number of codes if none does. More layers
  // never need more memory.
  std::size_t LeastThatFits(std::span<const int> codes) {
    if (!MemoryAt(codes.back()).fits) return codes.size();
    std::size_t misses = 0;  // the number of first codes that do not fit
    std::size_t fits = codes.size() - 1;
    while (misses < fits) {
      const std::size_t middle = (misses + fits) / 2;
      if (MemoryAt(codes[middle]).fits) {
        fits = middle;
      } else {
        misses = middle + 1;
      }
    }
    return fits;
  }

  // Recomputes as few layers in each stage as fit, at most `most`. Returns false if some stage does
  // not fit even with `most` layers.
  bool RecomputeByStage(int most) {
    std::optional<std::vector<int>> counts = RecomputeMixes(model_, plan_).LeastFull(most);
    if (!counts.has_value()) return false;
    plan_.recompute.granularity = RecomputeGranularity::kFull;
    plan_.recompute.layer_counts = *std::move(counts);
    return true;
  }

  AnalyticModel& model_;
  const SearchSpace& space_;
  ParallelPlan plan_;
  const NarrowOptions& options_;
  bool has_rules_;  // the framework has rules about recomputation
  NarrowedRecompute result_;
};

}  // namespace

NarrowedRecompute NarrowRecompute(AnalyticModel& model, const SearchSpace& space,
                                  const ParallelPlan& prefix, const NarrowOptions& options) {
  Narrowing narrowing(model, space, prefix, options);
  std::vector<int> codes = space.Values(Dimension::kRecompute, prefix);
  if (options.slowest_useful.has_value()) {
    ParallelPlan plain = prefix;
    space.Set(Dimension::kRecompute, kNoRecomputeCode, plain);
    const std::optional<Seconds> least = PlanBounds(model).LeastTimeIfPriced(plain);
    if (least.has_value() && *least > *options.slowest_useful) {
      narrowing.result().pruned_by_bound += static_cast<std::int64_t>(codes.size());
      return std::move(narrowing.result());
    }
  }
  narrowing.DropIllegal(codes);
  if (!options.by_memory || !options.by_dominance || !HasFixedOrder(prefix.schedule)) {
    // If one of the rules is off, or more work may change the order of operations, every choice is
    // checked.
    narrowing.LookAtAll(codes, options.by_memory);
    if (HasFixedOrder(prefix.schedule)) {
      narrowing.AddByStage(
          std::span(std::ranges::upper_bound(codes, kSelectiveRecomputeCode), codes.end()));
    }
    return std::move(narrowing.result());
  }
  // The user may have allowed only some of the choices.
  const auto has = [&](int code) { return std::ranges::binary_search(codes, code); };
  if (has(kNoRecomputeCode) && narrowing.KeepIfItFits(kNoRecomputeCode)) {
    narrowing.result().pruned_by_dominance += static_cast<std::int64_t>(codes.size() - 1);
    return std::move(narrowing.result());
  }
  if (has(kSelectiveRecomputeCode)) narrowing.KeepIfItFits(kSelectiveRecomputeCode);
  narrowing.NarrowFull(
      std::span(std::ranges::upper_bound(codes, kSelectiveRecomputeCode), codes.end()));
  return std::move(narrowing.result());
}

}  // namespace meshwright
