#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "estimator/model/analytic_model.h"
#include "estimator/pipeline/program.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/units.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/search/mixed/mixed_shape.h"
#include "server/tuner/search/mixed/mixed_space.h"
#include "server/tuner/search/mixed/stage_prices.h"

namespace meshwright {

// Tells which degrees a search looks at.
enum class MixDegrees { kAny, kEqual };  // kEqual: all stages have the same

// The best plan of those that use all pools of a set, and what is known of the others.
struct SetFound {
  std::vector<int> pools = {};                 // indices in ascending order
  std::optional<RecomputeChoice> best = {};    // absent: none fits
  std::optional<Seconds> least_left_out = {};  // bound of plans that were not decided; absent: none
  std::int64_t space_count = 0;                // plans, at most kManyPlans
  std::int64_t illegal_count = 0;              // of them, refused by the framework or the checker
  std::int64_t evaluated_count = 0;
  std::optional<StopCause> stopped = {};  // by the caller

  [[nodiscard]] bool IsProven() const {
    return !least_left_out.has_value() ||
           (best.has_value() && *least_left_out >= best->estimate.step_time);
  }
};

// The limits of the search of one set.
struct SetLimits {
  std::size_t shapes = 2'000'000;  // that are listed
  std::int64_t nodes = 4'000'000;  // partial splits of layers, of all shapes
  std::int64_t nodes_of_shape = 40'000;
  std::function<std::optional<StopCause>()> stop = {};
};

// The prices of all stretches of a problem, which the searches of its sets share.
class SharedPrices {
 public:
  // The referents outlive the prices.
  SharedPrices(const Problem& problem, const MixedSpace& space, AnalyticModel& model);

  // A way to use a pool beside shared choices, and its prices.
  struct Option {
    PoolDegrees degrees = {};
    StagePrices* prices = nullptr;
    double rate = 0;           // upper bound of the layers a second that all its stages pass
    std::uint32_t layout = 0;  // equal for options whose messages are equal
  };
  // Returns all ways to use a pool beside the shared choices of this index, the fastest first.
  const std::vector<Option>& OptionsOf(int pool, std::size_t shared);

  // Returns the messages between two stages that are used in these ways and follow one another.
  const Hop& HopBetween(const Option& from, const Option& to);

 private:
  // The choices that messages depend on.
  using Layout = std::tuple<PoolDegrees, int, bool>;

  const Problem& problem_;
  const MixedSpace& space_;
  AnalyticModel& model_;
  std::map<std::pair<int, std::size_t>, std::vector<Option>> options_;
  std::vector<std::unique_ptr<StagePrices>> prices_;
  std::map<Layout, std::uint32_t> layouts_;
  absl::flat_hash_map<std::uint64_t, Hop> hops_;  // by both layouts; only looked up
};

// The parts that the searches of all sets share.
struct MixedContext {
  const Problem& problem;
  const MixedSpace& space;
  SharedPrices& prices;
  AnalyticModel& model;
};

// Finds the plan of the set with the least step time: bounds all shapes, opens the most promising
// first, and lets the estimator decide between the splits of their layers. `known` is a plan of the
// set that was found before.
SetFound SearchSet(const MixedContext& context, const std::vector<int>& pools, MixDegrees degrees,
                   const SetLimits& limits, const std::optional<RecomputeChoice>& known);

}  // namespace meshwright
