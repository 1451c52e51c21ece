#pragma once

#include <cstddef>
#include <functional>

namespace meshwright {

// Does the tasks 0 to `count` - 1 on all cores and returns when all are done. The tasks may run in
// any order and at the same time.
void ParallelFor(std::size_t count, const std::function<void(std::size_t)>& task);

}  // namespace meshwright
