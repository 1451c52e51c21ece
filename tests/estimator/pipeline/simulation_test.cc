#include "estimator/pipeline/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "estimator/model/memory.h"
#include "estimator/pipeline/operation.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/pipeline/program.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/workload.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr Schedule kSchedules[] = {
    Schedule::kGpipe, Schedule::k1f1b,     Schedule::kInterleaved1f1b, Schedule::kZbH1,
    Schedule::kZbV,   Schedule::kDualpipe, Schedule::kDualpipeV,       Schedule::kChimera};

// Forward 1, backward 2, of which the weights' gradient is 1.
std::vector<StageWork> Equal(int stages) {
  const StageWork work = {
      .forward = Seconds(1), .backward = Seconds(2), .weight_gradient = Seconds(1)};
  return std::vector<StageWork>(static_cast<std::size_t>(stages), work);
}

struct Case {
  const char* name;
  Schedule schedule;
  int stages;
  int micro_batches;
  int virtual_stages;
  double expected;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr Case kCases[] = {
    // (m + p - 1)(f + b), arXiv 2104.04473, section 2.2.1
    {"Gpipe", Schedule::kGpipe, 4, 8, 1, 33},
    {"OneForwardOneBackward", Schedule::k1f1b, 4, 8, 1, 33},
    {"FewMicroBatches", Schedule::k1f1b, 8, 2, 1, 27},
    // m (f + b) + (p - 1)(f + b) / v, section 2.2.2
    {"Interleaved2", Schedule::kInterleaved1f1b, 4, 8, 2, 28.5},
    {"Interleaved4", Schedule::kInterleaved1f1b, 8, 16, 4, 48 + 21.0 / 4},
    // 3 m + (p - 1)(f + b - 2 w), arXiv 2401.10241, table 1
    {"ZeroBubbleH1", Schedule::kZbH1, 8, 8, 1, 31},
    {"ZeroBubbleH1Many", Schedule::kZbH1, 8, 128, 1, 384 + 7},
    // The last of four stages has done its second and last backward pass after 7. Three more stages
    // and the first one's weight gradient follow.
    {"ZeroBubbleH1Few", Schedule::kZbH1, 4, 2, 1, 11},
    // The turn takes no message and the second half fills the ramp: (p - 1) f / 2 is left,
    // arXiv 2405.15362
    {"ZeroBubbleV", Schedule::kZbV, 8, 64, 1, 192 + 3.5},
    {"ZeroBubbleVFew", Schedule::kZbV, 8, 8, 1, 24 + 3.5},
    {"ZeroBubbleVMany", Schedule::kZbV, 16, 512, 1, 1536 + 7.5},
    // 3 m + (p / 2 - 1)(f + 2 b - 3 w), arXiv 2412.19437, table 2
    {"DualPipe", Schedule::kDualpipe, 8, 64, 1, 192 + 3 * 2},
    // p f + (2 p - 2) b with p micro-batches, arXiv 2107.06925, section 3.4
    {"Chimera4", Schedule::kChimera, 4, 4, 1, 4 + 6 * 2},
    {"Chimera8", Schedule::kChimera, 8, 8, 1, 8 + 14 * 2},
};

Seconds EndOf(const std::vector<ScheduledOperation>& operations) {
  Seconds end(0);
  for (const ScheduledOperation& op : operations) end = std::max(end, op.end);
  return end;
}

class SimulationTest : public testing::TestWithParam<Case> {};

TEST_P(SimulationTest, EqualStages) {
  const Case& c = GetParam();
  const std::vector<StageWork> work = Equal(c.stages);
  EXPECT_DOUBLE_EQ(PipelineSimulator()
                       .Simulate({.schedule = c.schedule,
                                  .micro_batches = c.micro_batches,
                                  .virtual_stages = c.virtual_stages,
                                  .stages = work})
                       .count(),
                   c.expected);
}

INSTANTIATE_TEST_SUITE_P(All, SimulationTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Two micro-batches through four stages of 1F1B. The slow hop is in the middle: the last stage has
// them from 6 and 7 on, ends its backwards at 9 and 12, stage 2 at 11 and 14; 3 later stage 1
// starts its own, until 16 and 19, and the first stage ends at 21. A gradient that takes 1 instead
// of 3 saves 2. If all hops were slow the step would take 33.
TEST(Simulation, EachHopHasItsOwnMessages) {
  const std::vector<StageWork> stages = Equal(4);
  const auto time = [&](const Hop& middle) {
    const Hop hops[] = {{}, middle, {}};
    return PipelineSimulator().Simulate({.micro_batches = 2, .stages = stages, .hops = hops});
  };
  EXPECT_EQ(time({.forward = Seconds(3), .backward = Seconds(3)}), Seconds(21));
  EXPECT_EQ(time({.forward = Seconds(3), .backward = Seconds(1)}), Seconds(19));
  const PipelineProgram slow = {.micro_batches = 2, .message = Seconds(3), .stages = stages};
  EXPECT_EQ(PipelineSimulator().Simulate(slow), Seconds(33));
}

// The last of four stages does 2 micro-batches of 3 after the others' 9 and, on the way there and
// back, the messages of the middle hop: 6 + 9 + 3 + 1.
TEST(LeastPipelineTime, CountsTheHopsBefore) {
  const std::vector<StageWork> stages = Equal(4);
  const Hop hops[] = {{}, {.forward = Seconds(3), .backward = Seconds(1)}, {}};
  EXPECT_EQ(LeastPipelineTime({.micro_batches = 2, .stages = stages, .hops = hops}), Seconds(19));
}

// The bound holds whatever the hops, also those from the last stage's chunks to the first stage's.
TEST(LeastPipelineTime, HoldsForAnyHops) {
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    const int p = 2 + static_cast<int>(random() % 6);
    const int v = 1 + static_cast<int>(random() % 2);
    std::vector<StageWork> stages;
    std::vector<Hop> hops;
    const auto draw = [&] { return Seconds(static_cast<double>(random() % 100) / 10); };
    for (int stage = 0; stage < p; ++stage) {
      stages.push_back({.forward = draw(), .backward = draw()});
      hops.push_back({.forward = draw(), .backward = draw()});
    }
    const PipelineProgram program = {
        .schedule = v > 1 ? Schedule::kInterleaved1f1b : Schedule::k1f1b,
        .micro_batches = p * (1 + static_cast<int>(random() % 4)),
        .virtual_stages = v,
        .stages = stages,
        .hops = hops};
    EXPECT_GE(PipelineSimulator().Simulate(program).count(),
              LeastPipelineTime(program).count() * (1 - 1e-12));
  }
}

// A further round of micro-batches takes little more than the work of a device, for any proportions
// of the passes.
TEST(Simulation, BubblesDoNotGrow) {
  const StageWork work = {
      .forward = Seconds(1), .backward = Seconds(2.2), .weight_gradient = Seconds(0.9)};
  for (const Schedule schedule : kSchedules) {
    if (schedule == Schedule::kChimera) continue;  // more micro-batches than stages are refused
    const std::vector<StageWork> stages(8, work);
    const auto time = [&](int m) {
      return PipelineSimulator()
          .Simulate({.schedule = schedule,
                     .micro_batches = m,
                     .virtual_stages = schedule == Schedule::kInterleaved1f1b ? 2 : 1,
                     .stages = stages})
          .count();
    };
    const double bubble = time(64) - 64 * 3.2;
    EXPECT_LT(time(256) - 256 * 3.2, bubble + 0.06 * 192 * 3.2) << Word(schedule);
    EXPECT_LT(bubble, 8 * 3.2) << Word(schedule);
  }
}

// The bubbles of ZB-H1 and ZB-V are those of the papers for any number of micro-batches: f + b - 2
// w for each further stage of ZB-H1 (7 x (1 + 2.2 - 1.8) = 9.8), and below f of ZB-V.
TEST(Simulation, ZeroBubblesDoNotDependOnTheMicroBatches) {
  const StageWork work = {
      .forward = Seconds(1), .backward = Seconds(2.2), .weight_gradient = Seconds(0.9)};
  const std::vector<StageWork> stages(8, work);
  for (const int m : {8, 16, 64, 256, 1000}) {
    const auto bubble = [&](Schedule schedule) {
      const PipelineProgram program = {.schedule = schedule, .micro_batches = m, .stages = stages};
      return PipelineSimulator().Simulate(program).count() - m * 3.2;
    };
    EXPECT_NEAR(bubble(Schedule::kZbH1), 9.8, 1e-6) << m;
    EXPECT_LT(bubble(Schedule::kZbV), 7) << m;
  }
}

// Very many micro-batches are not walked one by one, but take as long as a walk of all of them.
TEST(Simulation, PaceOfManyMicroBatches) {
  std::mt19937 random(11);
  for (const Schedule schedule : kSchedules) {
    for (int i = 0; i < 5; ++i) {
      std::vector<StageWork> work(4);
      for (StageWork& stage : work) {
        const double forward = 1 + static_cast<double>(random() % 100) / 200;
        stage = {.forward = Seconds(forward),
                 .backward = Seconds(2 * forward),
                 .weight_gradient = Seconds(forward)};
      }
      const PipelineProgram program = {
          .schedule = schedule,
          .micro_batches = 2000,
          .virtual_stages = schedule == Schedule::kInterleaved1f1b ? 1 + i % 3 : 1,
          .message = Seconds(0.1),
          .stages = work};
      PipelineSimulator simulator;
      const Seconds time = simulator.Simulate(program);
      EXPECT_NEAR(time / EndOf(simulator.OperationsOf(program)), 1, 2e-3) << Word(schedule);
      EXPECT_GE(time, LeastPipelineTime(program) * (1 - 1e-9));
    }
  }
}

// Two stages, one micro-batch: there and back again, each with a message of 0.5.
TEST(Simulation, Messages) {
  const std::vector<StageWork> work = Equal(2);
  EXPECT_DOUBLE_EQ(PipelineSimulator().Simulate({.message = Seconds(0.5), .stages = work}).count(),
                   7);
}

struct RandomPipeline {
  std::vector<StageWork> work = {};
  PipelineProgram program = {};
};

RandomPipeline Random(Schedule schedule, std::mt19937& random) {
  RandomPipeline made;
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int p = 1 + below(8);
  for (int i = 0; i < p; ++i) {
    const double forward = 1 + below(100) / 50.0;
    const double weight = forward * (0.5 + below(50) / 100.0);
    made.work.push_back({.forward = Seconds(forward),
                         .backward = Seconds(forward + weight),
                         .weight_gradient = Seconds(weight)});
  }
  made.program = {
      .schedule = schedule, .micro_batches = 1 + below(3 * p), .message = Seconds(below(3) * 0.1)};
  if (schedule == Schedule::kInterleaved1f1b) {
    made.program.micro_batches = p * (1 + below(3));
    made.program.virtual_stages = 1 + below(3);
  }
  return made;
}

bool Overlap(const ScheduledOperation& a, const ScheduledOperation& b) {
  return a.start < b.end && b.start < a.end;
}

// Operations by kind, direction, chunk and micro-batch.
using OperationsByName = std::map<std::tuple<int, int, int, int>, ScheduledOperation>;

// That what an operation needs was done before it, and came with a message from another device.
void ExpectInputsBefore(const ScheduledOperation& op, const OperationsByName& by_name,
                        const PipelineLayout& layout, Seconds message) {
  const auto end_of = [&](OperationKind of, int chunk) {
    const Seconds end = by_name.at({static_cast<int>(of), op.direction, chunk, op.micro_batch}).end;
    return layout.StageOf(chunk) == layout.StageOf(op.chunk) ? end : end + message;
  };
  if (op.kind == OperationKind::kForward && op.chunk > 0) {
    EXPECT_GE(op.start, end_of(OperationKind::kForward, op.chunk - 1));
  }
  if (op.kind == OperationKind::kBackward) {
    EXPECT_GE(op.start, end_of(OperationKind::kForward, op.chunk));
    if (op.chunk + 1 < layout.chunks()) {
      EXPECT_GE(op.start, end_of(OperationKind::kBackward, op.chunk + 1));
    }
  }
  if (op.kind == OperationKind::kWeightGradient) {
    EXPECT_GE(op.start, end_of(OperationKind::kBackward, op.chunk));
  }
}

// Every order runs one operation at a time on a device, every operation once, each after those that
// it needs, and is no faster than the bound.
TEST(Simulation, HoldsWhatTheScheduleSays) {
  std::mt19937 random(7);
  for (const Schedule schedule : kSchedules) {
    for (int i = 0; i < 60; ++i) {
      RandomPipeline made = Random(schedule, random);
      made.program.stages = made.work;
      const auto p = static_cast<int>(made.work.size());
      const PipelineLayout layout = LayoutOf(schedule, p, made.program.virtual_stages);
      PipelineSimulator simulator;
      std::vector<ScheduledOperation> operations = simulator.OperationsOf(made.program);
      const Seconds time = simulator.Simulate(made.program);
      EXPECT_EQ(time, EndOf(operations));
      EXPECT_GE(time.count(), LeastPipelineTime(made.program).count() * (1 - 1e-12));
      EXPECT_EQ(operations.size(),
                static_cast<std::size_t>(made.program.micro_batches * layout.chunks() *
                                         (layout.SplitsBackward() ? 3 : 2)));
      OperationsByName by_name;
      for (const ScheduledOperation& op : operations) {
        by_name[{static_cast<int>(op.kind), op.direction, op.chunk, op.micro_batch}] = op;
      }
      EXPECT_EQ(by_name.size(), operations.size());
      std::ranges::stable_sort(
          operations, {}, [](const auto& op) { return std::tuple(op.device, op.start, op.end); });
      for (std::size_t k = 1; k < operations.size(); ++k) {
        if (operations[k - 1].device != operations[k].device) continue;
        EXPECT_FALSE(Overlap(operations[k - 1], operations[k]));
      }
      for (const auto& [name, op] : by_name) {
        ExpectInputsBefore(op, by_name, layout, made.program.message);
      }
    }
  }
}

// The most micro-batches that each device holds at once, a chunk as its share of the stage, is what
// memory counts.
TEST(Simulation, HoldsNoMoreThanMemoryCounts) {
  std::mt19937 random(8);
  for (const Schedule schedule : kSchedules) {
    for (int i = 0; i < 60; ++i) {
      RandomPipeline made = Random(schedule, random);
      made.program.stages = made.work;
      const auto p = static_cast<int>(made.work.size());
      const PipelineLayout layout = LayoutOf(schedule, p, made.program.virtual_stages);
      std::vector<ScheduledOperation> operations = PipelineSimulator().OperationsOf(made.program);
      std::ranges::stable_sort(operations, {}, &ScheduledOperation::start);
      std::map<std::pair<int, int>, double> held;  // by direction and stage
      std::map<std::pair<int, int>, double> most;
      const OperationKind last =
          layout.SplitsBackward() ? OperationKind::kWeightGradient : OperationKind::kBackward;
      for (const ScheduledOperation& op : operations) {
        const std::pair at = {op.direction, layout.StageOf(op.chunk)};
        if (op.kind == OperationKind::kForward) {
          held[at] += 1.0 / layout.chunks_per_device;
          most[at] = std::max(most[at], held[at]);
        } else if (op.kind == last) {
          held[at] -= 1.0 / layout.chunks_per_device;
        }
      }
      for (const auto& [at, count] : most) {
        EXPECT_LE(count, 1e-9 + InFlight(schedule, at.second, p, made.program.virtual_stages,
                                         made.program.micro_batches))
            << Word(schedule) << " p " << p << " stage " << at.second << " m "
            << made.program.micro_batches;
      }
    }
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
