#include "estimator/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>
#include <vector>

#include "estimator/pipeline/program.h"
#include "estimator/pipeline/simulation.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

std::vector<OccupiedRun> EachApart(const std::vector<double>& times) {
  std::vector<OccupiedRun> runs;
  runs.reserve(times.size());
  for (const double time : times) runs.push_back({.time = Seconds(time), .count = 1});
  return runs;
}

double Fraction(std::mt19937& random) { return static_cast<double>(random() % 1000) / 1000; }

struct Case {
  const char* name;
  std::vector<OccupiedRun> runs;
  PipelineShape shape;
  double expected_seconds;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"OneStage", {{Seconds(3), 1}}, {.micro_batches = 7}, 21},
    // (m + p - 1)(f + b), Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.1
    {"EqualStages", {{Seconds(3), 4}}, {.micro_batches = 8}, 33},
    {"Gpipe", {{Seconds(3), 4}}, {.schedule = Schedule::kGpipe, .micro_batches = 8}, 33},
    {"OneMicroBatch", {{Seconds(3), 4}}, {.micro_batches = 1}, 12},
    // m (f + b) + (p - 1)(f + b)/v, section 2.2.2: 24 + 9/2
    {"Interleaved",
     {{Seconds(3), 4}},
     {.schedule = Schedule::kInterleaved1f1b, .micro_batches = 8, .virtual_stages = 2},
     28.5},
    // Sum of the stages once and the longest for the rest: 1 + 2 + 4 + 1 + 7 * 4
    {"BottleneckStage",
     {{Seconds(1), 1}, {Seconds(2), 1}, {Seconds(4), 1}, {Seconds(1), 1}},
     {.schedule = Schedule::kGpipe, .micro_batches = 8},
     36},
    // Overlapped messages still cost the ramp 2 (p - 1) c, and stretch the period: the window of p
    // micro-batches has to cover (p W + 2 (p - 1) c) / p = 3 + 6/4 * 0.5 = 3.75 s.
    // 12 + 3 + 7 * 3.75
    {"RoundTrip",
     {{Seconds(3), 4}},
     {.micro_batches = 8, .point_to_point = Seconds(0.5), .overlaps_point_to_point = true},
     41.25},
};

class PipelineTimeTest : public testing::TestWithParam<Case> {};

TEST_P(PipelineTimeTest, ByHand) {
  EXPECT_DOUBLE_EQ(PipelineTime(GetParam().runs, GetParam().shape).count(),
                   GetParam().expected_seconds);
}

INSTANTIATE_TEST_SUITE_P(All, PipelineTimeTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Four stages of 3 with a slow hop in the middle, 6 for both of its messages: the window of stage
// 1, 3 micro-batches, has to cover (3 x 3 + 6) / 3 = 5 s, that of stage 0 only (4 x 3 + 6) / 4. 7 x
// 5 for the later micro-batches, 12 + 6 for the first.
TEST(PipelineTime, EachHopHasItsOwnMessages) {
  const PipelineShape shape = {.micro_batches = 8, .overlaps_point_to_point = true};
  const Seconds behind[] = {Seconds(0), Seconds(6), Seconds(0), Seconds(0)};
  EXPECT_DOUBLE_EQ(PipelineTime(EachApart({3, 3, 3, 3}), behind, shape).count(), 53);
  // Slow hops behind both of the first two stages: the window of stage 0, (4 x 3 + 12) / 4 = 6 s,
  // is the longest. 7 x 6 + 12 + 12.
  const std::vector<OccupiedRun> runs = {{Seconds(3), 2}, {Seconds(3), 2}};
  const Seconds of_runs[] = {Seconds(6), Seconds(0)};
  EXPECT_DOUBLE_EQ(PipelineTime(runs, of_runs, shape).count(), 66);
}

// Equal hops are the messages of the shape.
TEST(PipelineTime, EqualHopsAreOneMessage) {
  std::mt19937 random(6);
  for (int i = 0; i < 100; ++i) {
    const auto p = 2 + random() % 10;
    std::vector<double> times;
    for (std::size_t stage = 0; stage < p; ++stage) times.push_back(1 + Fraction(random));
    const PipelineShape shape = {.micro_batches = 24,
                                 .point_to_point = Seconds(Fraction(random)),
                                 .overlaps_point_to_point = true};
    std::vector<Seconds> behind(p, 2 * shape.point_to_point);
    behind.back() = Seconds(0);
    const double expected = PipelineTime(EachApart(times), shape).count();
    EXPECT_NEAR(PipelineTime(EachApart(times), behind, shape).count(), expected, 1e-12 * expected);
  }
}

// A message that is not hidden occupies the stage: two per micro-batch and virtual stage.
TEST(OccupiedTime, MessagesThatAreNotHidden) {
  const PipelineShape shape = {.virtual_stages = 2, .point_to_point = Seconds(0.25)};
  EXPECT_EQ(OccupiedTime(Seconds(3), shape, 4), Seconds(4));
  EXPECT_EQ(OccupiedTime(Seconds(3), shape, 1), Seconds(3));
  const PipelineShape hidden = {
      .virtual_stages = 2, .point_to_point = Seconds(0.25), .overlaps_point_to_point = true};
  EXPECT_EQ(OccupiedTime(Seconds(3), hidden, 4), Seconds(3));
}

struct StagePass {
  double forward = 1;
  double backward = 2;
};

// An exact walk over the operations of 1F1B: stage i runs min(m, p - 1 - i) forwards, then a
// forward and a backward in turn, then the backwards that are left; each waits for its input.
class ExactWalk {
 public:
  ExactWalk(const std::vector<StagePass>& stages, int micro_batches, double message)
      : micro_batches_(static_cast<std::size_t>(micro_batches)), message_(message) {
    for (const StagePass& pass : stages) stages_.push_back({.pass = pass});
  }

  double Run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t i = 0; i < stages_.size(); ++i) has_moved = Step(i) || has_moved;
    }
    double end = 0;
    for (const Stage& stage : stages_) end = std::max(end, stage.clock);
    return end;
  }

 private:
  struct Stage {
    StagePass pass = {};
    double clock = 0;
    std::vector<double> forward = {};  // when each micro-batch was done
    std::vector<double> backward = {};
  };

  // Runs the next operation of a stage. Returns false if its input is not there.
  bool Step(std::size_t i) {
    const Stage& stage = stages_[i];
    const std::size_t warm_up = std::min(micro_batches_, stages_.size() - 1 - i);
    const std::size_t ahead = stage.forward.size() - stage.backward.size();
    if (stage.forward.size() < micro_batches_ && ahead <= warm_up) return Forward(i);
    return stage.backward.size() < micro_batches_ && Backward(i);
  }

  bool Forward(std::size_t i) {
    Stage& stage = stages_[i];
    const std::size_t k = stage.forward.size();
    if (i > 0) {
      if (stages_[i - 1].forward.size() <= k) return false;
      stage.clock = std::max(stage.clock, stages_[i - 1].forward[k] + message_);
    }
    stage.clock += stage.pass.forward;
    stage.forward.push_back(stage.clock);
    return true;
  }

  bool Backward(std::size_t i) {
    Stage& stage = stages_[i];
    const std::size_t k = stage.backward.size();
    if (i + 1 < stages_.size()) {
      if (stages_[i + 1].backward.size() <= k) return false;
      stage.clock = std::max(stage.clock, stages_[i + 1].backward[k] + message_);
    }
    stage.clock += stage.pass.backward;
    stage.backward.push_back(stage.clock);
    return true;
  }

  std::vector<Stage> stages_;
  std::size_t micro_batches_;
  double message_;
};

double Walk(const std::vector<StagePass>& stages, int micro_batches, double message) {
  return ExactWalk(stages, micro_batches, message).Run();
}

std::vector<double> Sums(const std::vector<StagePass>& stages) {
  std::vector<double> sums;
  sums.reserve(stages.size());
  for (const StagePass& stage : stages) sums.push_back(stage.forward + stage.backward);
  return sums;
}

TEST(PipelineTime, ExactForEqualStages) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const int p = 1 + static_cast<int>(random() % 16);
    const int m = 1 + static_cast<int>(random() % 40);
    const StagePass pass = {.forward = 0.5 + Fraction(random), .backward = 1 + Fraction(random)};
    const std::vector<StagePass> stages(static_cast<std::size_t>(p), pass);
    const double walked = Walk(stages, m, 0);
    const double closed = PipelineTime(EachApart(Sums(stages)), {.micro_batches = m}).count();
    EXPECT_NEAR(closed, walked, 1e-9 * walked) << p << " stages, " << m << " micro-batches";
  }
}

// Stages of 0.7 to 1.3: the mean error is small, the worst one-sided high, because a slow stage
// hides part of the others' ramp (docs/cost_model/pipeline.md).
TEST(PipelineTime, CloseForUnevenStages) {
  std::mt19937 random(2);
  double sum = 0;
  const int count = 500;
  for (int i = 0; i < count; ++i) {
    const auto p = 2 + random() % 15;
    const int m = static_cast<int>(p + random() % 64);
    std::vector<StagePass> stages(p);
    for (StagePass& stage : stages) {
      const double scale = 0.7 + 0.6 * Fraction(random);
      stage = {.forward = scale, .backward = 2 * scale};
    }
    const double walked = Walk(stages, m, 0);
    const double closed = PipelineTime(EachApart(Sums(stages)), {.micro_batches = m}).count();
    EXPECT_GT(closed, 0.995 * walked);
    EXPECT_LT(closed, 1.2 * walked);
    sum += std::abs(closed / walked - 1);
  }
  EXPECT_LT(sum / count, 0.03);
}

// Messages of up to half a forward pass, hidden.
TEST(PipelineTime, CloseWithOverlappedMessages) {
  std::mt19937 random(3);
  double sum = 0;
  const int count = 300;
  for (int i = 0; i < count; ++i) {
    const auto p = 2 + random() % 15;
    const int m = static_cast<int>(p + random() % 64);
    const std::vector<StagePass> stages(p);
    const double message = 0.5 * Fraction(random);
    const double walked = Walk(stages, m, message);
    const double closed = PipelineTime(EachApart(Sums(stages)), {.micro_batches = m,
                                                                 .point_to_point = Seconds(message),
                                                                 .overlaps_point_to_point = true})
                              .count();
    EXPECT_NEAR(closed, walked, 0.1 * walked) << p << " stages, message " << message;
    sum += std::abs(closed / walked - 1);
  }
  EXPECT_LT(sum / count, 0.03);
}

// Interleaved, the ends with fewer layers than those between and a head of its own on the last, as
// the search has them; held against the simulation.
TEST(PipelineTime, CloseForUnevenStagesOfChunks) {
  std::mt19937 random(5);
  double sum = 0;
  const int count = 500;
  for (int i = 0; i < count; ++i) {
    const auto p = 2 + random() % 15;
    const int v = 2 + static_cast<int>(random() % 3);
    const auto m = static_cast<int>(p * (1 + random() % 8));
    const double layer_of_a_chunk = 2 + static_cast<double>(random() % 4);
    std::vector<double> layers(p, layer_of_a_chunk);
    layers.front() -= static_cast<double>(random() % 2);
    layers.back() -= static_cast<double>(random() % 2);
    std::vector<StageWork> works;
    std::vector<double> sums;
    for (std::size_t stage = 0; stage < p; ++stage) {
      const double head = stage + 1 == p ? 2 * Fraction(random) : 0;
      const Seconds forward(v * layers[stage] + head);
      works.push_back({.forward = forward, .backward = 2 * forward});
      sums.push_back(3 * forward.count());
    }
    const double simulated = PipelineSimulator()
                                 .Simulate({.schedule = Schedule::kInterleaved1f1b,
                                            .micro_batches = m,
                                            .virtual_stages = v,
                                            .stages = works})
                                 .count();
    const double closed = PipelineTime(EachApart(sums), {.schedule = Schedule::kInterleaved1f1b,
                                                         .micro_batches = m,
                                                         .virtual_stages = v})
                              .count();
    EXPECT_GT(closed, 0.999 * simulated) << p << " " << v << " " << m;
    EXPECT_LT(closed, 1.1 * simulated) << p << " " << v << " " << m;
    sum += std::abs(closed / simulated - 1);
  }
  EXPECT_LT(sum / count, 0.01);
}

// A run of equal stages counts as that many stages.
TEST(PipelineTime, RunsAreStages) {
  std::mt19937 random(4);
  for (int i = 0; i < 100; ++i) {
    std::vector<OccupiedRun> runs;
    std::vector<double> apart;
    for (int k = 0; k < 4; ++k) {
      const double time = 1 + Fraction(random);
      const int count = 1 + static_cast<int>(random() % 5);
      runs.push_back({.time = Seconds(time), .count = count});
      apart.insert(apart.end(), static_cast<std::size_t>(count), time);
    }
    for (const double message : {0.0, 0.3}) {
      const PipelineShape shape = {.micro_batches = 24,
                                   .point_to_point = Seconds(message),
                                   .overlaps_point_to_point = message > 0};
      const double expected = PipelineTime(EachApart(apart), shape).count();
      EXPECT_NEAR(PipelineTime(runs, shape).count(), expected, 1e-12 * expected);
    }
  }
}

// The same work in more micro-batches: less time, and never a negative bubble.
TEST(PipelineTime, MoreMicroBatchesLessBubble) {
  const std::vector<double> uneven = {1.0, 1.1, 0.9, 1.3, 0.8};
  for (const auto schedule : {Schedule::kGpipe, Schedule::k1f1b, Schedule::kInterleaved1f1b}) {
    const int v = schedule == Schedule::kInterleaved1f1b ? 2 : 1;
    double last = 1e9;
    for (int m = 5; m <= 320; m *= 2) {
      std::vector<double> stages = uneven;
      for (double& stage : stages) stage /= m;
      const double time =
          PipelineTime(EachApart(stages),
                       {.schedule = schedule, .micro_batches = m, .virtual_stages = v})
              .count();
      EXPECT_LT(time, last);
      EXPECT_GE(time, 1.3 * (1 - 1e-12));  // the busiest stage's own work
      last = time;
    }
  }
}

TEST(HasClosedForm, ThreeSchedules) {
  for (const auto& [schedule, word] : Choices<Schedule>()) {
    const bool expected = word == "gpipe" || word == "1f1b" || word == "interleaved_1f1b";
    EXPECT_EQ(HasClosedForm(schedule), expected) << word;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
