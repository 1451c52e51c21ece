#include "estimator/pipeline/progress.h"

namespace meshwright {

PipelineProgress::PipelineProgress(const PipelineProgram& program)
    : layout_(LayoutOf(program.schedule, static_cast<int>(program.stages.size()),
                       program.virtual_stages)),
      message_(program.message.count()),
      hops_(program.hops) {
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

Seconds PipelineProgress::End() const { return Seconds(*std::ranges::max_element(free_)); }

}  // namespace meshwright
