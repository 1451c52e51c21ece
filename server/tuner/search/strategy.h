#pragma once

#include <optional>

#include "search_space/base/units.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The result of judging a plan.
struct Observation {
  ParallelPlan plan = {};
  std::optional<Seconds> step_time = {};  // absent: the plan did not fit
  Bytes reserved_memory = {};
};

// Chooses the next plan from the results of the earlier ones. It knows neither what judges the
// plans (the cost model or trial runs) nor how many it may ask for; the driver decides both. The
// driver calls Ask and Tell in turn from one thread. A strategy never asks for a plan twice. It
// asks only for plans of its space that pass the rules (prune rules without a cost model), and for
// the same plans whenever it is told the same results.
class SearchStrategy {
 public:
  SearchStrategy() = default;
  SearchStrategy(const SearchStrategy&) = delete;
  SearchStrategy& operator=(const SearchStrategy&) = delete;
  virtual ~SearchStrategy() = default;

  virtual std::optional<ParallelPlan> Ask() = 0;  // nullopt: there is no further plan
  virtual void Tell(const Observation& observation) = 0;
};

}  // namespace meshwright
