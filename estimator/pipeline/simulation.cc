#include "estimator/pipeline/simulation.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/pipeline/progress.h"

namespace meshwright {
namespace {

constexpr int kWalkedRounds = 32;
constexpr int kPaceRounds = 8;
constexpr std::size_t kMaxKeptOperations = 2'000'000;  // 16 bytes each

// Runs the operations of each device in their order and hands each to `note`. Returns false if
// operations wait for one another.
template <typename Note>
bool RunInOrder(const PipelineOrders& orders, PipelineProgress& progress, const Note& note) {
  std::vector<std::size_t> next(orders.size(), 0);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t device = 0; device < orders.size(); ++device) {
      const std::vector<PipelineOperation>& order = orders[device];
      while (next[device] < order.size()) {
        const PipelineOperation& op = order[next[device]];
        const double ready = progress.ReadyAt(op);
        if (ready == PipelineProgress::kNotYet) break;
        note(progress.Run(op, ready));
        ++next[device];
        has_moved = true;
      }
    }
  }
  for (std::size_t device = 0; device < orders.size(); ++device) {
    if (next[device] < orders[device].size()) return false;
  }
  return true;
}

// Returns the time that the device with most work needs for the micro-batches of a program.
Seconds LeastPace(const PipelineProgram& program) {
  Seconds most(0);
  const auto p = program.stages.size();
  const bool has_two = LayoutOf(program.schedule, static_cast<int>(p), 1).directions() == 2;
  for (std::size_t i = 0; i < p; ++i) {
    const StageWork& own = program.stages[i];
    const StageWork& other = program.stages[has_two ? p - 1 - i : i];
    most = std::max(most, (own.forward + own.backward + other.forward + other.backward) / 2);
  }
  return program.micro_batches * most;
}

}  // namespace

const PipelineOrders& PipelineSimulator::OrdersFor(const PipelineProgram& program) {
  const Key key = {.schedule = program.schedule,
                   .stages = program.stages.size(),
                   .virtual_stages = program.virtual_stages,
                   .micro_batches = program.micro_batches,
                   .proportions = ProportionsOf(program)};
  auto found = orders_.find(key);
  if (found == orders_.end()) {
    if (kept_operations_ > kMaxKeptOperations) {
      orders_.clear();
      kept_operations_ = 0;
    }
    found = orders_.emplace(key, OrdersOf(program, key.proportions)).first;
    for (const auto& order : found->second) kept_operations_ += order.size();
  }
  return found->second;
}

Seconds PipelineSimulator::Walk(const PipelineProgram& program) {
  PipelineProgress progress(program);
  const bool ends = RunInOrder(OrdersFor(program), progress, [](const ScheduledOperation&) {});
  if (!ends) std::abort();  // a bug of ours
  return progress.End();
}

// Far behind its start a pipeline takes equally long for each further round of 2 p micro-batches:
// the first 32 rounds or more are walked, the rest goes on at the pace of the last eight.
Seconds PipelineSimulator::Simulate(const PipelineProgram& program) {
  const int round = 2 * static_cast<int>(program.stages.size());
  const int walked = kWalkedRounds * round + program.micro_batches % round;
  if (program.micro_batches <= walked) return Walk(program);
  PipelineProgram part = program;
  part.micro_batches = walked;
  const Seconds end = Walk(part);
  part.micro_batches = walked - kPaceRounds * round;
  const Seconds before = Walk(part);
  Seconds pace = (end - before) / kPaceRounds;
  // No pace is below the work of a device, whatever rounding says.
  part.micro_batches = round;
  pace = std::max(pace, LeastPace(part));
  return end + (program.micro_batches - walked) / round * pace;
}

std::vector<ScheduledOperation> PipelineSimulator::OperationsOf(const PipelineProgram& program) {
  PipelineProgress progress(program);
  std::vector<ScheduledOperation> operations;
  const bool ends =
      RunInOrder(OrdersFor(program), progress,
                 [&](const ScheduledOperation& operation) { operations.push_back(operation); });
  if (!ends) std::abort();  // a bug of ours
  return operations;
}

Seconds LeastPipelineTime(const PipelineProgram& program) {
  const auto p = static_cast<int>(program.stages.size());
  const PipelineLayout layout = LayoutOf(program.schedule, p, program.virtual_stages);
  const double m = program.micro_batches;
  Seconds least(0);
  Seconds before(0);  // time of earlier stages, while this stage cannot run anything
  Seconds hops(0);    // messages of the same time, if they differ
  for (int i = 0; i < p; ++i) {
    const StageWork& own = program.stages[static_cast<std::size_t>(i)];
    const Seconds whole = own.forward + own.backward;
    if (layout.directions() == 2) {
      const StageWork& other = program.stages[static_cast<std::size_t>(p - 1 - i)];
      const int down = (program.micro_batches + 1) / 2;
      least = std::max(
          least, down * whole + (program.micro_batches - down) * (other.forward + other.backward));
      continue;
    }
    // Weight gradients may run while the stages before do their last backwards.
    const double ways = layout.SplitsBackward() ? 1 : 2;
    least = std::max(
        least, m * whole + before / layout.chunks_per_device + ways * i * program.message + hops);
    if (i + 1 < p && !program.hops.empty()) {
      const Hop& hop = program.hops[static_cast<std::size_t>(i)];
      hops += layout.SplitsBackward() ? hop.forward : Sum(hop);
    }
    before += layout.SplitsBackward() ? own.forward : whole;
  }
  return least;
}

}  // namespace meshwright
