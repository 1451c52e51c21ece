#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "search_space/spec/plan.h"
#include "server/tuner/export/text/flag_list.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// FlagScale's configuration of a job on several types of devices (flagscale/train/arguments.py,
// _add_hetero_args). Each pool is one type of its name. The functions take a mixed plan with its
// flat fields (WithFlatFields).

// Adds the flags that say how the plan divides the job, other than those of the meshes.
void AddMeshLayoutFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);

// Returns the section of the meshes: `hetero` in `system`.
nlohmann::ordered_json MeshSection(const Problem& problem, const ParallelPlan& plan);

// Returns the host file: a line for each node, with a word in place of its name.
std::string HostFileText(const Problem& problem, const ParallelPlan& plan);

// Returns the settings of such a job that its files leave out.
std::vector<std::string> MeshLeftOut(const Problem& problem, const ParallelPlan& plan);

}  // namespace meshwright
