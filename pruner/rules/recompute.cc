#include <algorithm>
#include <span>

#include "estimator/pipeline_layout.h"
#include "pruner/pruner.h"

namespace meshwright {
namespace {

constexpr int kNoneCode = 0;
constexpr int kSelectiveCode = 1;

class Narrowing {
 public:
  Narrowing(AnalyticModel& model, const SearchSpace& space, const ParallelPlan& prefix,
            const NarrowOptions& options)
      : model_(model), space_(space), plan_(prefix), options_(options) {}

  std::optional<RecomputeChoice> At(int code) {
    space_.Set(Dimension::kRecompute, code, plan_);
    return Estimate();
  }

  // plan_ with its cost; nothing when the bound says that it is of no use.
  std::optional<RecomputeChoice> Estimate() {
    if (options_.slowest_useful.has_value()) {
      const std::optional<Seconds> least = model_.LeastTimeIfPriced(plan_);
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

  // The memory of a choice alone; its plan is in plan_ afterwards.
  MemoryCheck MemoryAt(int code) {
    space_.Set(Dimension::kRecompute, code, plan_);
    return model_.CheckMemory(plan_);
  }

  // Evaluates the choice when it fits; else it counts as pruned. Whether it fits.
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

  void Keep(std::optional<RecomputeChoice> choice) {
    if (choice.has_value()) result_.kept.push_back(*std::move(choice));
  }

  // plan_ does not fit; remembers the one that needs least.
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

  // Of full recomputation of more and more layers the least that fits, or all of them miss.
  void NarrowFull(std::span<const int> codes) {
    if (codes.empty()) return;
    if (const MemoryCheck most = MemoryAt(codes.back()); !most.fits) {
      result_.pruned_by_memory += static_cast<std::int64_t>(codes.size());
      NoteMiss(most.reserved_memory);
      return;
    }
    std::size_t misses = 0;  // this many of the first do not fit
    std::size_t fits = codes.size() - 1;
    while (misses < fits) {
      const std::size_t middle = (misses + fits) / 2;
      if (MemoryAt(codes[middle]).fits) {
        fits = middle;
      } else {
        misses = middle + 1;
      }
    }
    result_.pruned_by_memory += static_cast<std::int64_t>(fits);
    result_.pruned_by_dominance += static_cast<std::int64_t>(codes.size() - 1 - fits);
    space_.Set(Dimension::kRecompute, codes[fits], plan_);
    if (LightensStages()) LightenStages();
    Keep(Estimate());
  }

 private:
  // A user who states recomputation means it of all stages.
  [[nodiscard]] bool LightensStages() const {
    const SpaceOptions& options = space_.options();
    return options.recomputes_by_stage && !options.chosen.contains(Dimension::kRecompute) &&
           options.recomputed_layers == DimensionChoice() && plan_.pipeline_parallel > 1;
  }

  // As few recomputed layers in each stage as fit. Its memory does not depend on the other stages,
  // so each is found with the others as they are in plan_, which fits.
  void LightenStages() {
    const std::vector<int> most = plan_.recompute.layer_counts;
    std::vector<int> least = most;
    const int chunks = plan_.virtual_pipeline;
    for (std::size_t stage = 0; stage < most.size(); ++stage) {
      int misses = 0;  // fewer layers of a chunk than this do not fit
      int fits = most[stage] / chunks;
      while (misses < fits) {
        const int middle = (misses + fits) / 2;
        plan_.recompute.layer_counts[stage] = middle * chunks;
        if (model_.CheckMemory(plan_).fits) {
          fits = middle;
        } else {
          misses = middle + 1;
        }
      }
      least[stage] = fits * chunks;
      plan_.recompute.layer_counts[stage] = most[stage];
    }
    plan_.recompute.layer_counts = least;
  }

  AnalyticModel& model_;
  const SearchSpace& space_;
  ParallelPlan plan_;
  const NarrowOptions& options_;
  NarrowedRecompute result_;
};

}  // namespace

NarrowedRecompute NarrowRecompute(AnalyticModel& model, const SearchSpace& space,
                                  const ParallelPlan& prefix, const NarrowOptions& options) {
  Narrowing narrowing(model, space, prefix, options);
  const std::vector<int> codes = space.Values(Dimension::kRecompute, prefix);
  if (options.slowest_useful.has_value()) {
    ParallelPlan plain = prefix;
    space.Set(Dimension::kRecompute, kNoneCode, plain);
    const std::optional<Seconds> least = model.LeastTimeIfPriced(plain);
    if (least.has_value() && *least > *options.slowest_useful) {
      narrowing.result().pruned_by_bound += static_cast<std::int64_t>(codes.size());
      return std::move(narrowing.result());
    }
  }
  if (!options.by_memory || !options.by_dominance || !HasFixedOrder(prefix.schedule)) {
    // One of the rules is off, or more work may change the order of operations: every choice is
    // looked at.
    narrowing.LookAtAll(codes, options.by_memory);
    return std::move(narrowing.result());
  }
  // The user may have left only some of the choices.
  const auto has = [&](int code) { return std::ranges::binary_search(codes, code); };
  if (has(kNoneCode) && narrowing.KeepIfItFits(kNoneCode)) {
    narrowing.result().pruned_by_dominance += static_cast<std::int64_t>(codes.size() - 1);
    return std::move(narrowing.result());
  }
  if (has(kSelectiveCode)) narrowing.KeepIfItFits(kSelectiveCode);
  narrowing.NarrowFull(std::span(std::ranges::upper_bound(codes, kSelectiveCode), codes.end()));
  return std::move(narrowing.result());
}

}  // namespace meshwright
