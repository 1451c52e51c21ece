#pragma once

#include <cstdint>
#include <vector>

#include "search_space/base/units.h"

namespace meshwright {

// The replicas of one group, as far as it matters for their share of the batch.
struct SharingGroup {
  int samples = 1;            // of one micro-batch of all replicas
  Seconds work = Seconds(0);  // of a micro-batch on the slowest stage
  Seconds all = Seconds(0);   // of a micro-batch on all stages
  double forward = 0;         // largest share of the forward pass in a stage's time
  int stages = 1;
};

// Returns a lower bound of the pipeline of a replica that has so many micro-batches: the slowest
// stage works all the time but for its warm-up, in which it has a forward pass for each stage
// behind it (Least1f1bTime).
Seconds LeastPipeline(const SharingGroup& group, int micro_batches);

// A division of the batch: the micro-batches of a replica of each group.
struct BatchShares {
  std::vector<int> micro_batches = {};
  Seconds least = Seconds(0);  // the longest of the groups' LeastPipeline
};

// The lower bounds between which divisions are asked for: above `from`, up to `to`.
struct SharesBetween {
  Seconds from = Seconds(0);
  Seconds to = Seconds(0);
};

// Returns a lower bound of the longest pipeline, however the batch is shared out.
Seconds LeastShared(const std::vector<SharingGroup>& groups, int batch);

// Returns all divisions of the batch in whole micro-batches whose bound lies in the range, the
// least first, or as many as `most`; `were_cut` says if there are more.
std::vector<BatchShares> SharesOf(const std::vector<SharingGroup>& groups, int batch,
                                  const SharesBetween& range, std::int64_t& most, bool& were_cut);

}  // namespace meshwright
