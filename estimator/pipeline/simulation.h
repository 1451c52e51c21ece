#pragma once

#include <memory>
#include <span>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// What one micro-batch takes on the layers of one pipeline stage.
struct StageWork {
  Seconds forward = Seconds(0);
  Seconds backward = Seconds(0);         // weight gradients included
  Seconds weight_gradient = Seconds(0);  // the part that a zero-bubble schedule does later
};

struct PipelineProgram {
  Schedule schedule = Schedule::k1f1b;
  int micro_batches = 1;
  int virtual_stages = 1;        // chunks a device, of kInterleaved1f1b
  Seconds message = Seconds(0);  // between neighbouring chunks, beside computation
  std::span<const StageWork> stages = {};
};

enum class OperationKind { kForward, kBackward, kWeightGradient };

// One micro-batch in one chunk of the model. Chunks of a direction are numbered in the order in
// which a micro-batch goes through them.
struct ScheduledOperation {
  int device = 0;
  OperationKind kind = OperationKind::kForward;
  int direction = 0;  // 1: from the last device to the first (DualPipe, Chimera)
  int chunk = 0;
  int micro_batch = 0;  // of its direction
  Seconds start = Seconds(0);
  Seconds end = Seconds(0);
  bool operator==(const ScheduledOperation&) const = default;
};

// The exact longest path over the schedule's operations, each of which waits for its device and for
// what it depends on; of very many micro-batches the first rounds, and their pace for the rest,
// unless `operations` are asked for. GPipe, 1F1B and interleaved 1F1B have the order of
// Megatron-Core's schedules.py (Narayanan et al. 2021, arXiv 2104.04473), interleaved in whole
// groups of p micro-batches; the others that of a list schedule of the mean stage's operations,
// which prefers backward to forward and fills gaps with weight gradients, within the micro-batches
// that the schedule holds: ZB-H1 and ZB-V (Qi et al. 2023, arXiv 2401.10241; 2024, arXiv
// 2405.15362), DualPipe and DualPipeV (DeepSeek-V3, arXiv 2412.19437), Chimera (Li and Hoefler
// 2021, arXiv 2107.06925). A stage's work is divided evenly among its chunks. `operations` gets all
// of them, each device's in their order.
Seconds SimulatePipeline(const PipelineProgram& program,
                         std::vector<ScheduledOperation>* operations = nullptr);

// The same for many programs: orders are made once and kept, up to some tens of megabytes. Not for
// use from several threads at once.
class PipelineSimulator {
 public:
  PipelineSimulator();
  ~PipelineSimulator();
  PipelineSimulator(PipelineSimulator&&) noexcept;
  PipelineSimulator& operator=(PipelineSimulator&&) noexcept;
  Seconds Simulate(const PipelineProgram& program,
                   std::vector<ScheduledOperation>* operations = nullptr);

 private:
  struct Cache;
  Seconds Run(const PipelineProgram& program, std::vector<ScheduledOperation>* operations);
  std::unique_ptr<Cache> cache_;
};

// No order of operations is faster: every device does its work, and until the first and after the
// last micro-batch of a stage the stages before it do theirs.
Seconds LeastPipelineTime(const PipelineProgram& program);

}  // namespace meshwright
