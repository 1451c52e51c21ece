#include "estimator/pipeline/least_1f1b.h"

#include <algorithm>
#include <cstddef>

namespace meshwright {
namespace {

// Returns both messages behind a stage.
Seconds BehindOf(const PipelineProgram& program, std::size_t stage) {
  return program.hops.empty() ? 2 * program.message : Sum(program.hops[stage]);
}

}  // namespace

Seconds LeastTimeAround(const SurroundedStage& s) {
  const Seconds forward = s.work.forward;
  const Seconds backward = s.work.backward;
  const int q = s.stages_behind;
  const int m = s.micro_batches;
  // The first backward pass comes after the first micro-batch has been to the end and back, the
  // last one after the last has. Between, a stage has a warm-up of forward passes and as many
  // backward passes to do, or those of all micro-batches if these are fewer. The two waits are
  // different ones if the first backward pass comes before the last forward pass.
  const int passes = std::min(q, m - 1);
  const Seconds first = std::max(Seconds(0), s.behind - passes * forward);
  const Seconds last = std::max(Seconds(0), s.behind - passes * backward);
  const Seconds waits = q + 1 < m ? first + last : std::max(first, last);
  return m * (forward + backward) + s.before + waits;
}

Seconds Least1f1bTime(const PipelineProgram& program) {
  const std::size_t p = program.stages.size();
  Seconds behind(0);
  for (std::size_t i = 0; i < p; ++i) {
    behind += program.stages[i].forward + program.stages[i].backward;
    if (i + 1 < p) behind += BehindOf(program, i);
  }
  Seconds before(0);
  Seconds least(0);
  for (std::size_t i = 0; i < p; ++i) {
    const StageWork& work = program.stages[i];
    behind -= work.forward + work.backward;
    least = std::max(least, LeastTimeAround({.work = work,
                                             .micro_batches = program.micro_batches,
                                             .stages_behind = static_cast<int>(p - 1 - i),
                                             .before = before,
                                             .behind = std::max(Seconds(0), behind)}));
    before += work.forward + work.backward;
    if (i + 1 == p) break;
    before += BehindOf(program, i);
    behind -= BehindOf(program, i);
  }
  return least;
}

}  // namespace meshwright
