#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <vector>

#include "estimator/pipeline/operation.h"
#include "estimator/pipeline/orders.h"
#include "estimator/pipeline/program.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// Finds the exact longest path over the operations of a program, each of which waits for its device
// and for what it depends on. A stage's work is divided evenly among its chunks. It remembers the
// orders of the programs that it has simulated, up to some tens of megabytes: a memo table that
// decides how fast an answer comes, never what it is. Not for use from several threads at once.
class PipelineSimulator {
 public:
  // Returns the time from the first forward to the last backward. Of very many micro-batches it
  // walks the first rounds and takes their pace for the rest.
  Seconds Simulate(const PipelineProgram& program);
  // Returns every operation, those of one device in their order.
  std::vector<ScheduledOperation> OperationsOf(const PipelineProgram& program);

 private:
  struct Key {
    Schedule schedule;
    std::size_t stages;
    int virtual_stages;
    int micro_batches;
    Proportions proportions;
    auto operator<=>(const Key&) const = default;
  };

  const PipelineOrders& OrdersFor(const PipelineProgram& program);
  Seconds Walk(const PipelineProgram& program);

  std::map<Key, PipelineOrders> orders_;
  std::size_t kept_operations_ = 0;
};

// Returns a lower bound for every order of operations: every device does its work, and before the
// first and after the last micro-batch of a stage the stages before it do theirs.
Seconds LeastPipelineTime(const PipelineProgram& program);

// A simulation adds up as many times as there are operations. Its rounding never undercuts this
// share of the exact bound.
inline constexpr double kRoundingSlack = 1 - 1e-9;

}  // namespace meshwright
