#pragma once

#include <optional>

#include "search_space/base/units.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// What became of a plan.
struct Observation {
  ParallelPlan plan = {};
  std::optional<Seconds> step_time = {};  // nothing: it did not fit
  Bytes reserved_memory = {};
};

// A way to choose the next plan from what became of the earlier ones. It knows neither what judges
// the plans (the cost model, or trial runs) nor how many it may ask for: the driver owns both. The
// driver calls Ask and Tell in turn from one thread. A strategy asks for no plan twice, only for
// plans of its space that the rules let pass (prune rules without a cost model), and for the same
// plans whenever it is told the same.
class SearchStrategy {
 public:
  SearchStrategy() = default;
  SearchStrategy(const SearchStrategy&) = delete;
  SearchStrategy& operator=(const SearchStrategy&) = delete;
  virtual ~SearchStrategy() = default;

  virtual std::optional<ParallelPlan> Ask() = 0;  // nothing: knows no further plan
  virtual void Tell(const Observation& observation) = 0;
};

}  // namespace meshwright
