#pragma once

#include <cstdint>
#include <vector>

#include "search_space/space/dimensions.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/mixed/mixed_shape.h"

namespace meshwright {

// The mixed plans that a search looks at (docs/mixed-clusters.md): every set of two pools or more
// and every order of them; in each pool stages of equally many nodes with their own tensor, context
// and data parallelism; a micro-batch x data parallelism that all share; layers for each stage; the
// schedule 1f1b. The user's choices and the framework's rules narrow them.
class MixedSpace {
 public:
  // The problem has several pools and outlives the space.
  explicit MixedSpace(const Problem& problem);

  [[nodiscard]] const std::vector<SharedDegrees>& shared() const { return shared_; }
  // Returns all ways to use a pool beside these shared choices.
  [[nodiscard]] std::vector<PoolDegrees> DegreesOf(int pool, const SharedDegrees& shared) const;
  // Returns the sets of two pools or more, as indices in ascending order.
  [[nodiscard]] std::vector<std::vector<int>> Sets() const;

  // Returns true if the framework needs equal degrees on all stages.
  [[nodiscard]] bool NeedsEqualDegrees() const;

  // Returns true if the checker of plans and the framework's rules allow the shape.
  [[nodiscard]] bool Allows(const MixedShape& shape) const;
  // Returns true if the user's choices allow this value.
  [[nodiscard]] bool Takes(Dimension dimension, int value) const;
  // Returns the number of ways to share out the layers over so many stages, at most kManyPlans.
  [[nodiscard]] std::int64_t SplitCount(int stages) const;

 private:
  [[nodiscard]] bool TakesRest() const;
  [[nodiscard]] std::vector<MixRecompute> Recomputes() const;
  [[nodiscard]] bool RecomputesByStage() const;
  [[nodiscard]] bool AllowsStages(const std::vector<StagePlan>& stages, Dimension decided_by) const;
  [[nodiscard]] bool MayBeMixed(const PoolDegrees& degrees, const SharedDegrees& shared) const;
  void AddShared(const SharedDegrees& shared);

  const Problem& problem_;
  std::vector<SharedDegrees> shared_;
};

// Larger counts of plans are written as this one.
inline constexpr std::int64_t kManyPlans = 1'000'000'000'000'000'000;

}  // namespace meshwright
