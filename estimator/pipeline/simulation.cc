#include "estimator/pipeline/simulation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <map>
#include <tuple>

#include "estimator/pipeline/pipeline_layout.h"

namespace meshwright {
namespace {

constexpr int kWalkedRounds = 32;
constexpr int kPaceRounds = 8;
constexpr std::size_t kMostCachedOperations = 2'000'000;  // of 16 bytes
constexpr double kNotYet = std::numeric_limits<double>::infinity();

struct Operation {
  OperationKind kind = OperationKind::kForward;
  int direction = 0;
  int chunk = 0;
  int micro_batch = 0;
};

// When each operation was done, and what the next ones wait for.
class Progress {
 public:
  explicit Progress(const PipelineProgram& program)
      : layout_(LayoutOf(program.schedule, static_cast<int>(program.stages.size()),
                         program.virtual_stages)),
        message_(program.message.count()) {
    const int directions = layout_.directions();
    for (int d = 0; d < directions; ++d) {
      counts_.push_back((program.micro_batches + directions - 1 - d) / directions);
    }
    slots_ = static_cast<std::size_t>(counts_.front());
    const std::size_t size = static_cast<std::size_t>(directions * layout_.chunks()) * slots_;
    for (auto& ends : ends_) ends.assign(size, kNotYet);
    free_.assign(program.stages.size(), 0);
    const double share = 1.0 / layout_.chunks_per_device;
    for (int chunk = 0; chunk < layout_.chunks(); ++chunk) {
      const StageWork& work = program.stages[static_cast<std::size_t>(layout_.StageOf(chunk))];
      const double late = layout_.SplitsBackward() ? work.weight_gradient.count() : 0;
      durations_[0].push_back(share * work.forward.count());
      durations_[1].push_back(share * (work.backward.count() - late));
      durations_[2].push_back(share * late);
    }
  }

  // When the operation's inputs are there; kNotYet while something it needs is not done.
  [[nodiscard]] double ReadyAt(const Operation& op) const {
    switch (op.kind) {
      case OperationKind::kForward:
        return op.chunk == 0 ? 0 : Arrival(op, OperationKind::kForward, op.chunk - 1);
      case OperationKind::kBackward:
        if (op.chunk + 1 == layout_.chunks()) return EndOf(op, OperationKind::kForward, op.chunk);
        // Its own forward ended before the next chunk's.
        return Arrival(op, OperationKind::kBackward, op.chunk + 1);
      case OperationKind::kWeightGradient:
        return EndOf(op, OperationKind::kBackward, op.chunk);
    }
    return kNotYet;
  }

  void Run(const Operation& op, double ready, std::vector<ScheduledOperation>* operations) {
    const int device = layout_.DeviceOf(op.direction, op.chunk);
    double& clock = free_[static_cast<std::size_t>(device)];
    const double start = std::max(clock, ready);
    const auto kind = static_cast<std::size_t>(op.kind);
    clock = start + durations_[kind][static_cast<std::size_t>(op.chunk)];
    ends_[kind][Slot(op, op.chunk)] = clock;
    if (operations == nullptr) return;
    operations->push_back({.device = device,
                           .kind = op.kind,
                           .direction = op.direction,
                           .chunk = op.chunk,
                           .micro_batch = op.micro_batch,
                           .start = Seconds(start),
                           .end = Seconds(clock)});
  }

  [[nodiscard]] double free_at(int device) const { return free_[static_cast<std::size_t>(device)]; }
  [[nodiscard]] Seconds End() const { return Seconds(*std::ranges::max_element(free_)); }
  [[nodiscard]] const PipelineLayout& layout() const { return layout_; }
  [[nodiscard]] int micro_batches(int direction) const {
    return counts_[static_cast<std::size_t>(direction)];
  }

 private:
  [[nodiscard]] std::size_t Slot(const Operation& op, int chunk) const {
    return static_cast<std::size_t>(op.direction * layout_.chunks() + chunk) * slots_ +
           static_cast<std::size_t>(op.micro_batch);
  }
  [[nodiscard]] double EndOf(const Operation& op, OperationKind kind, int chunk) const {
    return ends_[static_cast<std::size_t>(kind)][Slot(op, chunk)];
  }
  // The turn of a folded pipeline stays on its device.
  [[nodiscard]] double Arrival(const Operation& op, OperationKind kind, int from) const {
    const double end = EndOf(op, kind, from);
    return layout_.StageOf(from) == layout_.StageOf(op.chunk) ? end : end + message_;
  }

  PipelineLayout layout_;
  double message_;
  std::vector<int> counts_;  // micro-batches of each direction
  std::size_t slots_ = 0;
  std::vector<double> ends_[3];       // by kind
  std::vector<double> durations_[3];  // by kind, of each chunk
  std::vector<double> free_;          // when each device has done what it was given
};

// Forwards that a device runs before its first backward: Megatron-Core's
// get_pp_rank_microbatches; interleaved it runs chunk by chunk, p micro-batches each.
int WarmUp(const PipelineLayout& layout, int device, int forwards) {
  if (layout.schedule == Schedule::kGpipe) return forwards;
  const int behind = layout.devices - device - 1;
  if (layout.schedule != Schedule::kInterleaved1f1b) return std::min(forwards, behind);
  return std::min(forwards, 2 * behind + (layout.chunks_per_device - 1) * layout.devices);
}

// The k-th forward, or backward, of a device: groups of p micro-batches go through its chunks in
// turn, backwards from the last.
Operation Nth(const PipelineLayout& layout, int device, OperationKind kind, int k,
              int micro_batches) {
  const int v = layout.chunks_per_device;
  const int p = layout.devices;
  if (v == 1) return {.kind = kind, .chunk = device, .micro_batch = k};
  const int group = k / (p * v);
  const int size = std::min(p, micro_batches - group * p);  // the last may be smaller
  const int within = k - group * p * v;
  const int turn = within / size;
  const int slice = kind == OperationKind::kForward ? turn : v - 1 - turn;
  return {.kind = kind, .chunk = slice * p + device, .micro_batch = group * p + within % size};
}

// What each device runs, one after the other.
using Orders = std::vector<std::vector<Operation>>;

Orders MegatronOrders(const PipelineLayout& layout, int micro_batches) {
  Orders orders(static_cast<std::size_t>(layout.devices));
  const int each = micro_batches * layout.chunks_per_device;
  for (int device = 0; device < layout.devices; ++device) {
    std::vector<Operation>& order = orders[static_cast<std::size_t>(device)];
    order.reserve(2 * static_cast<std::size_t>(each));
    const int warm_up = WarmUp(layout, device, each);
    for (int forwards = 0, backwards = 0; backwards < each;) {
      const bool is_forward = forwards < each && forwards - backwards <= warm_up;
      order.push_back(
          is_forward ? Nth(layout, device, OperationKind::kForward, forwards++, micro_batches)
                     : Nth(layout, device, OperationKind::kBackward, backwards++, micro_batches));
    }
  }
  return orders;
}

// False when operations wait for one another.
bool RunInOrder(const Orders& orders, Progress& progress,
                std::vector<ScheduledOperation>* operations) {
  std::vector<std::size_t> next(orders.size(), 0);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t device = 0; device < orders.size(); ++device) {
      const std::vector<Operation>& order = orders[device];
      while (next[device] < order.size()) {
        const Operation& op = order[next[device]];
        const double ready = progress.ReadyAt(op);
        if (ready == kNotYet) break;
        progress.Run(op, ready, operations);
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

// A list schedule: the device that can start first runs what it prefers of what is ready.
class ListSchedule {
 public:
  explicit ListSchedule(Progress& progress) : progress_(progress), layout_(progress.layout()) {
    const int chunks = layout_.directions() * layout_.chunks();
    for (auto& done : done_) done.assign(static_cast<std::size_t>(chunks), 0);
  }

  Orders Run() {
    Orders orders(static_cast<std::size_t>(layout_.devices));
    int left = 0;
    for (int d = 0; d < layout_.directions(); ++d) {
      left += progress_.micro_batches(d) * layout_.chunks() * (layout_.SplitsBackward() ? 3 : 2);
    }
    for (; left > 0; --left) {
      Choice best;
      for (int device = 0; device < layout_.devices; ++device) {
        const Choice choice = Best(device);
        if (choice.start < best.start) best = choice;
      }
      if (best.start == kNotYet) std::abort();  // every schedule ends; a bug of ours
      ++Done(best.op.kind, best.op.direction, best.op.chunk);
      progress_.Run(best.op, best.start, nullptr);
      const int device = layout_.DeviceOf(best.op.direction, best.op.chunk);
      orders[static_cast<std::size_t>(device)].push_back(best.op);
    }
    return orders;
  }

 private:
  struct Choice {
    Operation op = {};
    double start = kNotYet;
  };

  int& Done(OperationKind kind, int direction, int chunk) {
    const int at = direction * layout_.chunks() + chunk;
    return done_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(at)];
  }

  bool MayEnter(int direction, int chunk) {
    const OperationKind last =
        layout_.SplitsBackward() ? OperationKind::kWeightGradient : OperationKind::kBackward;
    return Done(OperationKind::kForward, direction, chunk) - Done(last, direction, chunk) <
           layout_.Capacity(chunk);
  }

  // The first in order of preference among what can start soonest.
  Choice Best(int device) {
    Choice best;
    for (const OperationKind kind :
         {OperationKind::kBackward, OperationKind::kForward, OperationKind::kWeightGradient}) {
      if (kind == OperationKind::kWeightGradient && !layout_.SplitsBackward()) continue;
      for (int d = 0; d < layout_.directions(); ++d) {
        for (int slice = layout_.chunks_per_device - 1; slice >= 0; --slice) {
          Consider(kind, d, ChunkOn(device, d, slice), device, best);
        }
      }
    }
    return best;
  }

  // The chunk of the device that is its `slice`-th on the way.
  [[nodiscard]] int ChunkOn(int device, int direction, int slice) const {
    const int stage = direction == 0 ? device : layout_.devices - 1 - device;
    return slice == 0 ? stage : layout_.chunks() - 1 - stage;  // folded
  }

  void Consider(OperationKind kind, int direction, int chunk, int device, Choice& best) {
    const int k = Done(kind, direction, chunk);
    if (k == progress_.micro_batches(direction)) return;
    if (kind == OperationKind::kForward && !MayEnter(direction, chunk)) return;
    const Operation op = {.kind = kind, .direction = direction, .chunk = chunk, .micro_batch = k};
    const double start = std::max(progress_.ReadyAt(op), progress_.free_at(device));
    // Of two directions, the one that is behind.
    const bool is_behind = start == best.start && kind == best.op.kind &&
                           direction != best.op.direction && k < best.op.micro_batch;
    if (start < best.start || is_behind) best = {.op = op, .start = start};
  }

  Progress& progress_;
  const PipelineLayout& layout_;
  std::vector<int> done_[3];  // by kind, of each direction's chunks
};

// Operations of the mean stage in parts of kParts of its work, whole numbers so that orders can be
// kept: a list schedule follows their proportions, the same on all stages.
struct Proportions {
  int forward = 1;
  int backward = 1;  // without the weights' gradient
  int weight_gradient = 1;
  auto operator<=>(const Proportions&) const = default;
};
constexpr double kParts = 64;

Proportions ProportionsOf(const PipelineProgram& program) {
  StageWork sum;
  for (const StageWork& stage : program.stages) {
    sum.forward += stage.forward;
    sum.backward += stage.backward;
    sum.weight_gradient += stage.weight_gradient;
  }
  const Seconds whole = sum.forward + sum.backward;
  if (HasFixedOrder(program.schedule) || whole.count() <= 0) return {};
  const auto part = [&](Seconds time) {
    return std::max(1, static_cast<int>(std::lround(kParts * (time / whole))));
  };
  return {.forward = part(sum.forward),
          .backward = part(sum.backward - sum.weight_gradient),
          .weight_gradient = part(sum.weight_gradient)};
}

Orders OrdersOf(const PipelineProgram& program, const Proportions& proportions) {
  if (HasFixedOrder(program.schedule)) {
    return MegatronOrders(
        LayoutOf(program.schedule, static_cast<int>(program.stages.size()), program.virtual_stages),
        program.micro_batches);
  }
  const StageWork mean = {.forward = Seconds(proportions.forward),
                          .backward = Seconds(proportions.backward + proportions.weight_gradient),
                          .weight_gradient = Seconds(proportions.weight_gradient)};
  const std::vector<StageWork> stages(program.stages.size(), mean);
  Progress progress(
      {.schedule = program.schedule, .micro_batches = program.micro_batches, .stages = stages});
  return ListSchedule(progress).Run();
}

}  // namespace

struct PipelineSimulator::Cache {
  // Schedule, stages, virtual stages, micro-batches.
  using Key = std::tuple<Schedule, std::size_t, int, int, Proportions>;
  std::map<Key, Orders> orders = {};
  std::size_t operations = 0;
};

PipelineSimulator::PipelineSimulator() : cache_(std::make_unique<Cache>()) {}
PipelineSimulator::~PipelineSimulator() = default;
PipelineSimulator::PipelineSimulator(PipelineSimulator&&) noexcept = default;
PipelineSimulator& PipelineSimulator::operator=(PipelineSimulator&&) noexcept = default;

// What the micro-batches of a program take on the device with most work.
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

Seconds PipelineSimulator::Run(const PipelineProgram& program,
                               std::vector<ScheduledOperation>* operations) {
  const Proportions proportions = ProportionsOf(program);
  const Cache::Key key = {program.schedule, program.stages.size(), program.virtual_stages,
                          program.micro_batches, proportions};
  auto found = cache_->orders.find(key);
  if (found == cache_->orders.end()) {
    if (cache_->operations > kMostCachedOperations) *cache_ = {};
    found = cache_->orders.emplace(key, OrdersOf(program, proportions)).first;
    for (const auto& order : found->second) cache_->operations += order.size();
  }
  Progress progress(program);
  if (!RunInOrder(found->second, progress, operations)) std::abort();  // a bug of ours
  return progress.End();
}

// Far behind its start a pipeline takes as long for each further round of 2 p micro-batches: the
// first 32 rounds or more are walked, the rest goes on at the pace of the last eight.
Seconds PipelineSimulator::Simulate(const PipelineProgram& program,
                                    std::vector<ScheduledOperation>* operations) {
  const int round = 2 * static_cast<int>(program.stages.size());
  const int walked = kWalkedRounds * round + program.micro_batches % round;
  if (operations != nullptr || program.micro_batches <= walked) return Run(program, operations);
  PipelineProgram part = program;
  part.micro_batches = walked;
  const Seconds end = Run(part, nullptr);
  part.micro_batches = walked - kPaceRounds * round;
  const Seconds before = Run(part, nullptr);
  Seconds pace = (end - before) / kPaceRounds;
  // No pace is below the work of a device, whatever rounding says.
  part.micro_batches = round;
  pace = std::max(pace, LeastPace(part));
  return end + (program.micro_batches - walked) / round * pace;
}

Seconds SimulatePipeline(const PipelineProgram& program,
                         std::vector<ScheduledOperation>* operations) {
  return PipelineSimulator().Simulate(program, operations);
}

Seconds LeastPipelineTime(const PipelineProgram& program) {
  const auto p = static_cast<int>(program.stages.size());
  const PipelineLayout layout = LayoutOf(program.schedule, p, program.virtual_stages);
  const double m = program.micro_batches;
  Seconds least(0);
  Seconds before(0);  // of the stages before, which nothing of this stage can run beside
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
    least =
        std::max(least, m * whole + before / layout.chunks_per_device + ways * i * program.message);
    before += layout.SplitsBackward() ? own.forward : whole;
  }
  return least;
}

}  // namespace meshwright
