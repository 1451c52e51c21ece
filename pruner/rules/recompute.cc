#include <algorithm>

#include "pruner/pruner.h"

namespace meshwright {
namespace {

constexpr int kNoneCode = 0;
constexpr int kSelectiveCode = 1;
constexpr std::size_t kFirstFull = 2;  // in the list of codes

class Narrowing {
 public:
  Narrowing(AnalyticModel& model, const SearchSpace& space, const ParallelPlan& prefix)
      : model_(model), space_(space), plan_(prefix) {}

  RecomputeChoice At(int code) {
    space_.Set(Dimension::kRecompute, code, plan_);
    ++result_.evaluated;
    return {.plan = plan_, .estimate = model_.Quick(plan_)};
  }

  void Keep(RecomputeChoice choice) { result_.kept.push_back(std::move(choice)); }

  void Misses(RecomputeChoice choice) {
    ++result_.pruned_by_memory;
    Nearest(std::move(choice));
  }

  void Nearest(RecomputeChoice choice) {
    if (!result_.least_memory.has_value() ||
        choice.estimate.reserved_memory < result_.least_memory->estimate.reserved_memory) {
      result_.least_memory = std::move(choice);
    }
  }

  NarrowedRecompute& result() { return result_; }

  // The least number of fully recomputed layers that fits, or all of them miss.
  void NarrowFull(const std::vector<int>& codes) {
    const std::size_t count = codes.size() - kFirstFull;
    if (count == 0) return;
    RecomputeChoice most = At(codes.back());
    if (!most.estimate.fits) {
      result_.pruned_by_memory += static_cast<std::int64_t>(count);
      Nearest(std::move(most));
      return;
    }
    std::size_t misses = 0;  // this many of the first do not fit
    std::size_t fits = count - 1;
    while (misses < fits) {
      const std::size_t middle = (misses + fits) / 2;
      RecomputeChoice choice = At(codes[kFirstFull + middle]);
      if (choice.estimate.fits) {
        fits = middle;
        most = std::move(choice);
      } else {
        misses = middle + 1;
      }
    }
    result_.pruned_by_memory += static_cast<std::int64_t>(fits);
    result_.pruned_by_dominance += static_cast<std::int64_t>(count - 1 - fits);
    Keep(std::move(most));
  }

 private:
  AnalyticModel& model_;
  const SearchSpace& space_;
  ParallelPlan plan_;
  NarrowedRecompute result_;
};

}  // namespace

NarrowedRecompute NarrowRecompute(AnalyticModel& model, const SearchSpace& space,
                                  const ParallelPlan& prefix, const NarrowOptions& options) {
  Narrowing narrowing(model, space, prefix);
  const std::vector<int> codes = space.Values(Dimension::kRecompute, prefix);
  if (!options.by_memory || !options.by_dominance) {
    // One of the rules is off: every choice is evaluated.
    for (const int code : codes) {
      RecomputeChoice choice = narrowing.At(code);
      if (choice.estimate.fits) {
        narrowing.Keep(std::move(choice));
      } else if (options.by_memory) {
        narrowing.Misses(std::move(choice));
      } else {
        narrowing.Nearest(std::move(choice));
      }
    }
    return std::move(narrowing.result());
  }
  RecomputeChoice none = narrowing.At(kNoneCode);
  if (none.estimate.fits) {
    narrowing.Keep(std::move(none));
    narrowing.result().pruned_by_dominance += static_cast<std::int64_t>(codes.size() - 1);
    return std::move(narrowing.result());
  }
  narrowing.Misses(std::move(none));
  RecomputeChoice selective = narrowing.At(kSelectiveCode);
  if (selective.estimate.fits) {
    narrowing.Keep(std::move(selective));
  } else {
    narrowing.Misses(std::move(selective));
  }
  narrowing.NarrowFull(codes);
  return std::move(narrowing.result());
}

}  // namespace meshwright
