#pragma once

#include <string_view>
#include <vector>

#include "search_space/spec/plan.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Neighbouring stages of one pool that have one shape; FlagScale calls them a process mesh.
struct StageMesh {
  StagePlan stage = {};  // the first one
  int stage_count = 0;
};

// Returns the stages of a mixed plan as meshes, in the order of the pipeline.
std::vector<StageMesh> MeshesOf(const ParallelPlan& plan);

// Returns a mixed plan whose flat fields say the same as its stages, so that the parts of exporters
// that take plans without stages can read it: the degrees and the micro-batch are those of the
// first stage, the layers and the recomputation those of all stages.
ParallelPlan WithFlatFields(ParallelPlan plan);

// Refuses mixed plans whose stages differ in more than their pool and their layers, in the name of
// a framework that gives all ranks one shape.
void RefuseUnequalStages(const ParallelPlan& plan, std::string_view framework, Refusals& refusals);

// Refuses mixed plans whose stages recompute different modules of their layers.
void RefuseUnequalModules(const ParallelPlan& plan, std::string_view framework, Refusals& refusals);

// Refuses pools whose names are no words: FlagScale's host file and the variable of a command hold
// them.
void RefusePoolNames(const ParallelPlan& plan, Refusals& refusals);

// Refuses mixed plans that leave devices of their nodes idle: FlagScale starts a process on each
// device of a node, and numbers its stages through them.
void RefuseIdleDevices(const Problem& problem, const ParallelPlan& plan, Refusals& refusals);

// Returns true if the chips of the plan's pools come from more than one vendor, so that no
// collective library runs on all of them.
bool MixesVendors(const Problem& problem, const ParallelPlan& plan);

}  // namespace meshwright
