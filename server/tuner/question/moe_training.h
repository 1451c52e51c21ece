#pragma once

#include "search_space/spec/cluster.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/workload.h"

namespace meshwright {

// Returns the usual way to exchange tokens on nodes like those of `pool`: the profile's, or
// all-to-all where its dispatcher does not run.
MoeTraining UsualMoeTraining(const FrameworkProfile& profile, const NodePool& pool);

}  // namespace meshwright
